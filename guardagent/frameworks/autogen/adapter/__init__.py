"""AutoGen: `agent = guarded(agent, guard)`.

    guarded(agent, guard)    tools, workbenches, hand-offs and executed code of an agent, or of a team, in place
    conversation(id)         names the conversation of the runs inside it
    TeamHalted               raised by a run, of an agent or a team, when a rule halts it

Extra: `guardagent[autogen]`.
"""

from guardagent._support.requirements import require, warn_untried
from guardagent.frameworks.autogen.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from guardagent.frameworks.autogen.adapter.attachment import guarded  # noqa: E402
from guardagent.frameworks.autogen.adapter.runs import TeamHalted, conversation  # noqa: E402

__all__ = ["TeamHalted", "conversation", "guarded"]
