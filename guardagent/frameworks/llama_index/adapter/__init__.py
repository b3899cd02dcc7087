"""LlamaIndex: `agent = guarded(agent, guard)`.

    guarded(agent, guard)       tools, MCP tools and hand-offs of an agent, or of an AgentWorkflow
    conversation(id)            names the conversation of the runs inside it
    answer(ctx, event, decision)    a reviewer's answer to an InputRequiredEvent of the guard
    WorkflowHalted              raised by a run when a rule halts it

Extra: `guardagent[llama-index]`.
"""

from guardagent._support.requirements import require, warn_untried
from guardagent.frameworks.llama_index.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from guardagent.frameworks.llama_index.adapter.approvals import answer  # noqa: E402
from guardagent.frameworks.llama_index.adapter.attachment import guarded  # noqa: E402
from guardagent.frameworks.llama_index.adapter.runs import WorkflowHalted, conversation  # noqa: E402

__all__ = ["WorkflowHalted", "answer", "conversation", "guarded"]
