"""CrewAI: `crew = guarded(crew, guard)`.

    guarded(crew, guard)    the tools of a Crew and its agents, or of one Agent, in place
    conversation(id)        names the conversation of the runs inside it
    CrewHalted              raised by a kickoff when a rule halts the run

Extra: `guardagent[crewai]`.
"""

from guardagent._support.requirements import require, warn_untried
from guardagent.frameworks.crewai.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from guardagent.frameworks.crewai.adapter.attachment import guarded  # noqa: E402
from guardagent.frameworks.crewai.adapter.runs import CrewHalted, conversation  # noqa: E402

__all__ = ["CrewHalted", "conversation", "guarded"]
