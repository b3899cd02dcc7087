"""CrewAI: `crew = guarded(crew, guard)`.

    guarded(crew, guard)    the tools of a Crew and its agents, or of one Agent, in place
    conversation(id)        names the conversation of the runs inside it
    CrewHalted              raised by a kickoff when a rule halts the run

Extra: `guardagent[crewai]`.

Tools that run at the model's provider, where no guard sees them, are refused unless the operator names them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from guardagent._support.requirements import require
from guardagent.frameworks.crewai.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

from crewai import Agent, Crew

from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.host_runs import Named
from guardagent.frameworks.crewai.adapter.agents import CrewAttachment
from guardagent.frameworks.crewai.adapter.runs import CrewHalted, conversation

__all__ = ["CrewHalted", "conversation", "guarded"]


# --- attaching

AnyCrew = TypeVar("AnyCrew", Crew, Agent)


def guarded(
    crew: AnyCrew,
    guard: EnforcementPoint,
    *,
    conversation: Named = None,
    unjudged: Mapping[str, Collection[str]] | None = None,
    unguarded: Collection[str] = (),
) -> AnyCrew:
    """Attaches a guard in place to a crew and its agents, or to an agent.

    Args:
        crew: a Crew, or an Agent, without another guard.
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the kickoff.
        unjudged: tool -> arguments that the program supplies and no rule needs; they are passed on unchanged, and
            neither judged nor logged.
        unguarded: tools of the model's provider that may run without the guard.

    Returns:
        The crew or agent.

    Raises:
        InputError: an agent or a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of
            the agents', or there is another guard already.
    """
    attachment = CrewAttachment(guard, conversation, dict(unjudged or {}), frozenset(unguarded))
    if isinstance(crew, Crew):
        attachment.guard_crew(crew)
    else:
        attachment.guard_agent(crew)
    attachment.list_tools(crew)
    return crew
