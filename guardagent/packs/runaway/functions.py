"""The functions of the rules: they compare arguments and outputs."""

from __future__ import annotations

import json
import re
from typing import Any

_NUMBERING = re.compile(
    r"(attempt|try|retry|retries|nonce|requestid|correlationid|traceid|callid|idempotencykey|timestamp|now|time)s?"
)
_ERROR = re.compile(r"\s*\W{0,3}(error|exception|traceback|failed|failure|fatal)\b", re.IGNORECASE)


def fingerprint(value: Any) -> str:
    """A string that is equal for equal values. Case, spaces, and numbers or times of attempts do not count."""
    return json.dumps(_plain(value), sort_keys=True)


def shows_error(output: Any) -> bool:
    """Whether an output begins as an error, or is a mapping with an error."""
    if isinstance(output, dict):
        return any(bool(output.get(key)) for key in ("error", "errors", "isError", "is_error", "exception"))
    return isinstance(output, str) and _ERROR.match(output) is not None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            str(key): _plain(part)
            for key, part in value.items()
            if not _NUMBERING.fullmatch(re.sub(r"[^a-z]", "", str(key).lower()))
        }
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return " ".join(value.casefold().split()) if isinstance(value, str) else value if value is None else str(value)
