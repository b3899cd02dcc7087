"""Strands Agents: `Agent(..., interventions=[GuardIntervention(guard)])`.

    GuardIntervention(guard)    an intervention: the tools, answers and sub-agents of its agents
    guarded(agent, guard)       attaches it in place to an agent, a Swarm or a Graph
    conversation(id)            names the conversation of the runs inside it
    StrandsHalted                 raised by a run when a rule halts it

Extra: `guardagent[strands]`.
"""

from guardagent._support.requirements import require, warn_untried
from guardagent.frameworks.strands.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from guardagent.frameworks.strands.adapter.intervention import GuardIntervention, guarded  # noqa: E402
from guardagent.frameworks.strands.adapter.runs import StrandsHalted, conversation  # noqa: E402

__all__ = ["GuardIntervention", "StrandsHalted", "conversation", "guarded"]
