"""The audit log: what a guard has decided, appended to a file in which nothing can be changed unseen.

    AuditLog         appends; what it has acknowledged outlives any crash
    verify_log       reads a log through, and says what is wrong with it
    verdict_record   what is written of a verdict; outcome_record of what came of a call

Every entry holds the hash of the one before it, and with a key nobody else can make such hashes. That the end is
missing shows only by a `Head` that is kept elsewhere. A store is a module of `stores/`, known by the suffixes it takes.
"""

from guardagent.errors import LogError
from guardagent.log.audit_log import AuditLog
from guardagent.log.head import Head
from guardagent.log.keys import load_key
from guardagent.log.records import outcome_record, verdict_record
from guardagent.log.verification import verify_log

__all__ = ["AuditLog", "Head", "LogError", "load_key", "outcome_record", "verdict_record", "verify_log"]
