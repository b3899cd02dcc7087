"""Claude Agent SDK: `options = guarded(options, guard)`.

    guarded(options, guard)     all tools of a session: built-in ones, MCP servers, tools of this process, sub-agents
    conversation(id)            names the conversation of the sessions that begin inside it
    query(prompt, options)      as the SDK's, with final answers held until they are judged
    GuardedClient(options)      as ClaudeSDKClient, in the same way

Extra: `guardagent[claude-agent-sdk]`.
"""

from guardagent._support.requirements import require, warn_untried
from guardagent.frameworks.claude_agent_sdk.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from guardagent.frameworks.claude_agent_sdk.adapter.attachment import guarded  # noqa: E402
from guardagent.frameworks.claude_agent_sdk.adapter.client import GuardedClient, query  # noqa: E402
from guardagent.frameworks.claude_agent_sdk.adapter.scopes import conversation  # noqa: E402

__all__ = ["GuardedClient", "conversation", "guarded", "query"]
