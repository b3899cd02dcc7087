"""Replays recorded calls under a candidate policy, and compares its decisions with those of the log or of another one.

recorded_values  decodes the values of a log; a redacted or cut value is unknown, and marked as unrecorded
log_steps        reads an audit log or a traces file as steps: verdicts, outcomes, withdrawals and ends
conversation     judges one conversation again, without a ledger, an approver, a model or a log
comparison       counts the differences of each rule, with an example
traces           compares two policies on a trace
replay           runs all of it
"""

from guardagent.batch.replay.replay import ReplayReport, replay

__all__ = ["ReplayReport", "replay"]
