"""AG2: `agent = guarded(agent, guard)`.

    guarded(agent, guard)    the tools, toolkits and sub-agents of an agent, in place
    conversation(id)         names the conversation of the turns inside it
    stream_id                names it by the stream: `guarded(agent, guard, conversation=stream_id)`
    AskHalted                raised by `agent.ask` when a rule halts the turn

Extra: `guardagent[ag2]`.
"""

from guardagent._support.requirements import require, warn_untried
from guardagent.frameworks.ag2.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from guardagent.frameworks.ag2.adapter.attachment import guarded, stream_id  # noqa: E402
from guardagent.frameworks.ag2.adapter.runs import AskHalted, conversation  # noqa: E402

__all__ = ["AskHalted", "conversation", "guarded", "stream_id"]
