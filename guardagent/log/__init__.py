"""The audit log: an append-only chain of guards' decisions that reveals any change.

    AuditLog         appends; acknowledged entries survive any crash
    verify_log       reads a log and reports any damage
    verdict_record   the record of a verdict; outcome_record the record of a call's outcome

Every entry holds the hash of the one before it, and with a key nobody else can compute these hashes. Only a `Head` kept
in another place reveals a missing end. A store is a module of `stores/`, selected by the suffix of a file or by the
scheme of an address.
"""

from guardagent.errors import LogError
from guardagent.log.audit_log import AuditLog
from guardagent.log.chain import Head, load_key
from guardagent.log.records import outcome_record, verdict_record
from guardagent.log.verification import verify_log

__all__ = ["AuditLog", "Head", "LogError", "load_key", "outcome_record", "verdict_record", "verify_log"]
