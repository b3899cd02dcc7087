"""Self-consistency (paper, Appendix Q; Wang et al. 2023): several plans for one run vote on the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import replace

from guardagent.models import Completion
from guardagent.models.prompts import ModelCall
from guardagent.programs.generation import Generation, GenerationSetup
from guardagent.programs.memory.agents import Demonstration
from guardagent.types import Context, Decision, Event, Verdict, freeze

TEMPERATURE = 0.7  # for several plans; a single plan uses 0


def vote_verdict(
    setup: GenerationSetup, event: Event, context: Context, votes: int
) -> Generator[ModelCall, Completion, tuple[Verdict, Demonstration | None]]:
    """Returns the agreed verdict of `votes` generations, and the demonstration to learn from it.

    The decision is the most severe one that at least half of the votes reach or exceed. A vote that could not be
    checked counts as a denial.
    """
    temperature = TEMPERATURE if votes > 1 else 0.0
    generations = [Generation(setup, event, context, vote=vote, temperature=temperature) for vote in range(votes)]
    verdicts = []
    for generation in generations:
        verdict = yield from generation.flow()
        verdicts.append(verdict)
    if votes == 1:
        return verdicts[0], generations[0].demonstration
    chosen = representative(verdicts)
    verdict = replace(
        verdicts[chosen],
        details=freeze({**verdicts[chosen].details, "votes": [str(verdict.decision) for verdict in verdicts]}),
        story=tuple(step for verdict in verdicts for step in verdict.story),
        calls=tuple(call for verdict in verdicts for call in verdict.calls),
    )
    return verdict, generations[chosen].demonstration


def representative(verdicts: Sequence[Verdict]) -> int:
    """Returns the index of a verdict with the agreed decision: without errors, then with the most common answer."""
    decision = _agreed_decision([verdict.decision for verdict in verdicts])
    reached = [place for place, verdict in enumerate(verdicts) if verdict.decision == decision]
    answers = Counter(verdicts[place].answer for place in reached)
    return min(reached, key=lambda place: (bool(verdicts[place].errors), -answers[verdicts[place].answer], place))


def _agreed_decision(decisions: Sequence[Decision]) -> Decision:
    half = len(decisions) / 2
    reached = [one for one in decisions if sum(other >= one for other in decisions) >= half]
    return max(reached, key=lambda decision: decision.severity)
