"""Pydantic AI: `agent = guarded(agent, guard)`.

    guarded(agent, guard)       every tool, toolset, MCP server and output function of an agent's runs
    conversation(id)            names the conversation of the runs inside it, as `conversation_id=` of a run does
    answer_requests(requests, {...})    reviewers' answers to the guard's requests among `DeferredToolRequests`
    AgentRunHalted                   raised by a run when a rule halts it
    AgentRunEnded                    raised by a run that gave up, and whose output cannot be a text

Extra: `guardagent[pydantic-ai]`.
"""

from guardagent._support.requirements import require, warn_untried
from guardagent.frameworks.pydantic_ai.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from guardagent.frameworks.pydantic_ai.adapter.approvals import answer_requests  # noqa: E402
from guardagent.frameworks.pydantic_ai.adapter.attachment import guarded  # noqa: E402
from guardagent.frameworks.pydantic_ai.adapter.runs import AgentRunEnded, AgentRunHalted, conversation  # noqa: E402

__all__ = ["AgentRunEnded", "AgentRunHalted", "answer_requests", "conversation", "guarded"]
