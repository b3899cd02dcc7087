"""The Microsoft Agent Framework: `agent = guarded(agent, guard)`.

    guarded(agent, guard)       all tools of an agent, or of a chat client: functions, MCP, agents, hand-offs
    conversation(id)            names the conversation of the runs inside it
    answer(request, decision)   a reviewer's answer to an approval request of the guard
    AgentFrameworkHalted                   raised by a run when a rule halts it

Extra: `guardagent[agent-framework]`.
"""

from guardagent._support.requirements import require, warn_untried
from guardagent.frameworks.agent_framework.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from guardagent.frameworks.agent_framework.adapter.approvals import answer  # noqa: E402
from guardagent.frameworks.agent_framework.adapter.attachment import guarded  # noqa: E402
from guardagent.frameworks.agent_framework.adapter.runs import AgentFrameworkHalted, conversation  # noqa: E402

__all__ = ["AgentFrameworkHalted", "answer", "conversation", "guarded"]
