"""smolagents: `agent = guarded(agent, guard)`.

    guarded(agent, guard)    the tools and managed agents of a ToolCallingAgent or a CodeAgent, in place
    conversation(id)         names the conversation of the runs inside it
    AgentHalted                raised by `agent.run` when a rule halts the run

Extra: `guardagent[smolagents]`.
"""

from guardagent._support.requirements import require, warn_untried
from guardagent.frameworks.smolagents.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from guardagent.frameworks.smolagents.adapter.attachment import guarded  # noqa: E402
from guardagent.frameworks.smolagents.adapter.runs import AgentHalted, conversation  # noqa: E402

__all__ = ["AgentHalted", "conversation", "guarded"]
