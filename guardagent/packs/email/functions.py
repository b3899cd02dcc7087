"""The functions of the rules: they find recipients, headers, attachments and strings at any depth of a call."""

from __future__ import annotations

import contextlib
import re
import unicodedata
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from guardagent.packs import MAX_DEPTH, letters, with_json

_RECIPIENT = re.compile(
    r"to|cc|replyto|.*(recipient|receiver|addressee|invitee|attendee|participant).*|.*(bcc|blindcopy|blindcarboncopy)"
    r"|emails?|(to|cc)emails?|.*address(es)?|carboncopy|(forward|redirect|copy)(s|ed|ing)?e?mails?"
    r"|(e?mail|forward|forwarding|autoforward|redirect|send|deliver|copy|share|notify|resent|errors)to|returnpath|resent[bc]?cc"
)
_SENDER = re.compile(r".*(from|sender|replyto|returnpath|onbehalfof).*")
_HOST = re.compile(r"(smtp|mail|relay|sending)?(host|server|domain)(name)?")
_HEADERS = re.compile(r".*headers?|rfc822|raw(email|mail|message|mime)?|mime(message|content)?|eml")
_HIDDEN = re.compile(r".*(bcc|blindcopy|blindcarboncopy)")
_HEADER = re.compile(rf"{_RECIPIENT.pattern}|from|sender|subject|title|name|.*header.*")
_ATTACHMENT = re.compile(r".*attachment.*|files?|filename|filepath|documents?|paths?")
_BETWEEN = re.compile(r"[\s<>,;:\"'()\[\]]+")  # between addresses
_ALIKE = str.maketrans({"0": "o", "1": "l", "3": "e", "5": "s", "i": "l", "|": "l"})
_URL_SAFE = str.maketrans("-_", "+/")


def recipients(arguments: dict[str, Any]) -> list[str]:
    """The addresses under 'to', 'cc', 'bcc', 'reply_to' and the like, in lower case; other text there as it is."""
    recipients: dict[str, None] = {}
    for text in _under(_without_names(arguments), _RECIPIENT):
        plain = unicodedata.normalize("NFKC", text).lower()
        addresses = [part.rstrip(".") for part in _BETWEEN.split(plain) if "@" in part]
        recipients.update(dict.fromkeys(addresses or [plain]))
    return list(recipients)


def hidden_recipients(arguments: dict[str, Any]) -> list[str]:
    """The strings under 'bcc' and the like."""
    return list(_under(arguments, _HIDDEN))


def header_texts(arguments: dict[str, Any]) -> list[str]:
    """The strings that become headers of a mail: addresses, the subject and the like."""
    return list(_under(arguments, _HEADER))


def attachments(arguments: dict[str, Any]) -> list[str]:
    """The names of attached files, in lower case."""
    return [text.strip().lower() for text in _under(arguments, _ATTACHMENT)]


def senders(arguments: dict[str, Any]) -> list[str]:
    """The addresses and hosts that a mail comes from or is answered to, in lower case."""
    texts = [unicodedata.normalize("NFKC", text).lower() for text in _under(arguments, _SENDER)]
    hosts = [text.strip().lower().rpartition("//")[2].partition(":")[0] for text in _under(arguments, _HOST)]
    return hosts + [part.rstrip(".") for text in texts for part in _BETWEEN.split(text) if "@" in part]


def strings(value: Any) -> list[str]:
    """The strings in a value at any depth."""
    return [text for _, text in _leaves(value)]


def settings(value: Any) -> list[str]:
    """The keys of a value at any depth, in lower case without separators."""
    return [key for key, _ in _leaves(value, keep_empty=True)]


def resembles(address: str, domains: list[str]) -> bool:
    """Whether the domain of an address looks like one of some domains, or has letters that are not ASCII."""
    domain = address.rpartition("@")[2]
    if not domain.isascii() or "xn--" in domain:
        return True
    return any(_looks_like(domain, known_domain.lower()) for known_domain in domains)


def _looks_like(domain: str, own: str) -> bool:
    if domain == own or domain.endswith(f".{own}"):
        return False
    domain = ".".join(domain.split(".")[-len(own.split(".")) :]) if f".{own}." not in f".{domain}" else domain
    plain, mine = (name.replace("rn", "m").replace("vv", "w").translate(_ALIKE) for name in (domain, own))
    return plain == mine or f".{own}." in f".{domain}" or (len(own) >= 6 and _differ_by_one(domain, own))


def _differ_by_one(domain: str, other: str) -> bool:
    """Whether a letter is missing, added or another."""
    short, long = sorted((domain, other), key=len)
    if len(long) - len(short) > 1:
        return False
    at = next((at for at, pair in enumerate(zip(short, long, strict=False)) if pair[0] != pair[1]), len(short))
    return short[at:] == long[at + 1 :] or short[at + 1 :] == long[at + 1 :]


def _without_names(value: Any) -> Any:
    """A value without the names that stand beside addresses."""
    value = with_json(value)
    if isinstance(value, dict):
        has_address = any(isinstance(part, str) and "@" in part for part in value.values())
        names = ("name", "displayName", "display_name", "type") if has_address else ()
        return {key: _without_names(part) for key, part in value.items() if key not in names or "@" in str(part)}
    return [_without_names(part) for part in value] if isinstance(value, list) else value


def _under(value: Any, names: re.Pattern[str]) -> Iterator[str]:
    return (text for key, text in _leaves(value, names=names))


def _leaves(
    value: Any, key: str = "", depth: int = 0, *, names: re.Pattern[str] | None = None, keep_empty: bool = False
) -> Iterator[tuple[str, str]]:
    """The values that are neither lists nor mappings, as strings with their keys. With names: those below such a key.

    Empty values count only if they are kept. Headers in a text, or with their names beside them, count as keys.
    """
    value = with_json(value)
    if _HEADERS.fullmatch(key):
        value = _headers(value)
    if isinstance(value, dict) and depth < MAX_DEPTH:
        for name, part in value.items():
            own = letters(name)
            inner = own if names is None or names.fullmatch(own) or not key else key
            yield from _leaves(part, inner, depth + 1, names=names, keep_empty=keep_empty)
    elif isinstance(value, list) and depth < MAX_DEPTH:
        for part in value:
            yield from _leaves(part, key, depth + 1, names=names, keep_empty=keep_empty)
    elif keep_empty or (value not in (None, "", False) and (names is None or names.fullmatch(key))):
        yield key, str(value)


def _headers(value: Any) -> Any:
    """Headers by their names: of a text, also in base64, or of a mapping with `name` and `value`."""
    if isinstance(value, dict) and isinstance(name := value.get("name", value.get("key")), str) and "value" in value:
        return {name: value["value"]}
    if not isinstance(value, str):
        return value
    text = value
    if re.fullmatch(r"[\w+/=-]{24,}", text):
        with contextlib.suppress(ValueError):
            text = b64decode(text.translate(_URL_SAFE) + "===").decode("utf-8", "replace")
    lines = re.split(r"\r?\n(?![ \t])|\\r\\n|;\s*(?=[\w-]+:)", text.strip().split("\n\n")[0].split("\r\n\r\n")[0])
    named = [line.partition(":") for line in lines if re.match(r"[\w-]+:", line)]
    return [{name: content.strip()} for name, _, content in named] if len(named) == len(lines) else value
