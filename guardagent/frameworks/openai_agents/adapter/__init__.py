"""The OpenAI Agents SDK: `agent = guarded(agent, guard)`.

    guarded(agent, guard)       function tools, MCP tools, agents as tools and hand-offs, of all reachable agents
    GuardedRunner               Runner with the session's id as the conversation; needed where answers are judged
    conversation(id)            names the conversation of the runs inside it
    request(item)               the approval request of an interruption
    answer(state, item, said)   a reviewer's answer to it: approve, reject or edit
    RunHalted                   raised by Runner when a rule halts the run

Extra: `guardagent[openai-agents]`.
"""

from guardagent._support.requirements import require
from guardagent.frameworks.openai_agents.package import DISTRIBUTIONS, EXTRA

require(DISTRIBUTIONS, EXTRA)

from guardagent.frameworks.openai_agents.adapter.approvals import answer, request  # noqa: E402
from guardagent.frameworks.openai_agents.adapter.attachment import guarded  # noqa: E402
from guardagent.frameworks.openai_agents.adapter.denials import RunHalted  # noqa: E402
from guardagent.frameworks.openai_agents.adapter.runner import GuardedRunner  # noqa: E402
from guardagent.frameworks.openai_agents.adapter.runs import conversation  # noqa: E402

__all__ = ["GuardedRunner", "RunHalted", "answer", "conversation", "guarded", "request"]
