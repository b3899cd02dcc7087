"""Google ADK: `Runner(agent=agent, plugins=[GuardPlugin(guard)], ...)`, or `App(plugins=[GuardPlugin(guard)], ...)`.

    GuardPlugin(guard)          the tools, hand-offs and answers of every agent that the runner reaches
    questions(event)            the approval requests of an event
    answer(question, decision)  a reviewer's answer, as the next message of the run
    conversation_id(app, user, session)     the guard's id of a session
    RunnerHalted                 raised by a run when a rule halts it

Extra: `guardagent[adk]`.
"""

from guardagent._support.requirements import require, warn_untried
from guardagent.frameworks.adk.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from guardagent.frameworks.adk.adapter.approvals import answer, questions  # noqa: E402
from guardagent.frameworks.adk.adapter.plugin import GuardPlugin  # noqa: E402
from guardagent.frameworks.adk.adapter.runs import RunnerHalted, conversation_id  # noqa: E402

__all__ = ["GuardPlugin", "RunnerHalted", "answer", "conversation_id", "questions"]
