"""The functions of strings, and of values that hold them: what a string has in it, and what a mapping has."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any
from urllib.parse import unquote

from guardagent._support.syntax import compile_pattern
from guardagent.policy.functions import JSON, JSON_LIST, REGEX, rule_function
from guardagent.policy.language.values import (
    Truth,
    Unknown,
    disjunction,
    equal,
    exact,
    field_of,
    kind_name,
    kind_of,
    parsed,
)
from guardagent.policy.provenance.amounts import NUMBER, SHORT, number_key, readings
from guardagent.policy.provenance.hosts import bare_links, parted
from guardagent.policy.provenance.readers import LeafReader
from guardagent.policy.provenance.spelling import normalized
from guardagent.policy.provenance.tokens import Scanner
from guardagent.types import MAX_DIGITS


@rule_function("lower", ("text",), result="text")
def _lower(text: str) -> str:
    """`lower(text)`: the string in lower case."""
    return text.lower()


@rule_function("starts_with", ("text",), ("text",), result="truth value")
def _starts_with(text: str, start: str) -> bool:
    """`starts_with(text, start)`: whether a string starts with another."""
    return text.startswith(start)


@rule_function("ends_with", ("text",), ("text",), result="truth value")
def _ends_with(text: str, end: str) -> bool:
    """`ends_with(text, end)`: whether a string ends with another."""
    return text.endswith(end)


# --- mappings: as for a field, a string is read as JSON


@rule_function("has", JSON, ("text",), result="truth value")
def _has(value: Any, key: str) -> Any:
    """`has(m, "key")`: whether a mapping has a key, also with null."""
    return _entries(value, lambda mapping: key in mapping)


@rule_function("keys", JSON, result="list")
def _keys(value: Any) -> Any:
    """`keys(m)`: the keys of a mapping, as a list."""
    return _entries(value, list)


@rule_function("values", JSON, result="list")
def _values(value: Any) -> Any:
    """`values(m)`: the values of a mapping, as a list."""
    return _entries(value, lambda mapping: list(mapping.values()))


@rule_function("[:]", ("list",), ("number",), ("number",), required=2, result="list")
def _slice(items: Any, start: Any, end: Any = None) -> Any:
    """`xs[0:2]`, `xs[1:]`: the items from a place up to, and without, another one.

    Negative places count from the end.
    """
    if any(place is not None and int(place) != place for place in (start, end)):
        return Unknown("a place in a list is not a whole number")
    return list(items)[int(start) : None if end is None else int(end)]


@rule_function("[=]", JSON_LIST, ("text",), ())
def _row(rows: Any, key: str, value: Any) -> Any:
    """`rows[key = v]`: the only mapping in a list whose field is this value; unknown without one, or with several."""
    rows = parsed(str(rows)) if kind_of(rows) == "text" else rows
    if kind_of(rows) != "list":
        return rows if type(rows) is Unknown else Unknown(f"a {kind_name(rows)} is not a list")
    matches = [(item, equal(field_of(item, key), value)) for item in rows]
    sure = [item for item, is_equal in matches if is_equal is True]
    if len(sure) == 1 and all(is_equal is False for item, is_equal in matches if item is not sure[0]):
        return sure[0]
    unsure = next((why for _, why in matches if type(why) is Unknown), None)
    if unsure is not None and len(sure) < 2:
        return unsure
    return Unknown(f"{'several rows have' if sure else 'no row has'} this value of {key!r}")


def _entries(value: Any, listed: Callable[[Any], Any]) -> Any:
    mapping = parsed(str(value)) if kind_of(value) == "text" else value
    if type(mapping) is Unknown:
        return mapping
    return listed(mapping) if kind_of(mapping) == "mapping" else Unknown(f"a {kind_name(mapping)} is not a mapping")


# --- searches with RE2: in linear time, and with a bounded result

MAX_SEARCHED = 1_000_000  # characters
MAX_FOUND = 1_000  # matches, counting empty ones
_INVALID = Unknown("a string cannot be searched: it is not valid Unicode")


def matches_in(text: str, regex: str) -> list[list[str | None]] | Unknown:
    """The groups of each match that is not empty, with the whole match as the first one."""
    if len(text) > MAX_SEARCHED:
        return Unknown(f"a string has more than {MAX_SEARCHED:,} characters")
    matches: list[list[str | None]] = []
    try:
        for number, match in enumerate(compiled(regex).finditer(text.encode())):
            if number >= MAX_FOUND:
                return Unknown(f"a string has more than {MAX_FOUND:,} matches")
            if match[0]:
                matches.append([None if group is None else group.decode() for group in (match[0], *match.groups())])
    except UnicodeError:
        return _INVALID
    return matches


def has_match(text: str, regex: str) -> bool | Unknown:
    """Whether a regular expression matches somewhere."""
    try:
        return compiled(regex).search(text.encode()) is not None
    except UnicodeError:
        return _INVALID


def escaped(text: str) -> str:
    """The regular expression that matches exactly this string."""
    import re2

    return str(re2.escape(text))


@lru_cache(256)
def compiled(regex: str) -> Any:
    """A compiled regular expression; the latest ones are kept."""
    return compile_pattern(regex)


@rule_function("find", ("text",), (REGEX,), result="list")
def _find(text: str, regex: str) -> Any:
    """`find(text, /regex/)`: the matches of a regular expression, in order: the first group of each, if it has one.

    Empty matches do not count. A match in which the group takes no part is null.
    """
    matches = matches_in(text, regex)
    return matches if isinstance(matches, Unknown) else [groups[min(1, len(groups) - 1)] for groups in matches]


# --- addresses and links, also with HTML character references such as `&#64;`

_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def without_entities(text: str) -> str:
    """The string with each character reference replaced by its character."""
    return _REFERENCE.sub(lambda match: html.unescape(match[0]), text) if "&" in text else text


_DOMAIN_WORD = r"[\pL\pN\pM\x{200b}-\x{200d}_-]"
_LOCAL_PART = r"(?:[\pL\pN\pM\x{200b}-\x{200d}.!#$%&'*+/=?^_{|}~`-]+|\"[^\"\r\n]{1,64}\")"
_EMAIL = rf"{_LOCAL_PART}@(?:{_DOMAIN_WORD}+(?:\.{_DOMAIN_WORD}+)+|\[[0-9A-Za-z:.]+\])"
_BEFORE_ADDRESS = ".'`*_~/=?&{|"  # punctuation of the text, as in '*a@b.c*'
_WITHIN_ADDRESS = re.compile(r"[=/?&|]")


@rule_function("emails", ("text",), result="list")
def _emails(text: str) -> Any:
    """`emails(text)`: the e-mail addresses in a string, in lower case, without duplicates.

    An address has a domain with a dot, or an IP address in brackets. A local part in quotes is found too.
    """
    matches = matches_in(without_entities(text), _EMAIL)
    if isinstance(matches, Unknown):
        return matches
    return list(dict.fromkeys(address for groups in matches for address in _addresses_in(str(groups[0]).lower())))


def _addresses_in(address: str) -> Iterator[str]:
    """The address; also the part after a separator, since 'to=a@b.c' may be an address or a parameter with one."""
    local, _, domain = address.rpartition("@")
    local, domain = local.lstrip(_BEFORE_ADDRESS) or local, domain.rstrip("-_")
    yield f"{local}@{domain}"
    if (last := _WITHIN_ADDRESS.split(local)[-1]) not in ("", local):
        yield f"{last}@{domain}"


_LINK_ENDS = r"\s<>\"'`\x{a0}\x{2000}-\x{200a}\x{2028}\x{2029}\x{3000}"
_LINK_RUN = rf"(?:[^{_LINK_ENDS}()\[\]{{}}]|\([^{_LINK_ENDS}()]*\)|\[[0-9A-Fa-f:.]*\])+"  # brackets only in pairs
_SCHEME = "[a-z][a-z0-9+.-]{1,30}"
_LONGEST_SCHEME = 31  # characters
_LINK = "|".join(
    (
        r"\b(?i:href|src|action)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'<>`]+))",
        rf"\]\(\s*<?({_LINK_RUN})",
        rf"\]:\s*<?({_LINK_RUN})",
        rf"((?i:https?:[/\\]|{_SCHEME}:[/\\]{{2}}){_LINK_RUN})",
        rf"\b((?i:www\.){_LINK_RUN})",
        rf"(?:^|[{_LINK_ENDS}(\[=])(//[^{_LINK_ENDS}/()\[\]{{}}]+\.{_LINK_RUN})",
    )
)
# A bounded repetition has too many states for RE2 in text such as base64; so it is used only where it matters.
_ANY_LINK = _LINK.replace(_SCHEME, "[a-z][a-z0-9+.-]+")
_LINK_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?([/\\]*)([^/\\?#]*)([^?#]*)(.*)", re.DOTALL)
_WEB = {"http": "80", "https": "443"}


@rule_function("links", ("text",), result="list")
def _links(text: str) -> Any:
    """`links(text)`: the links in a string, normalised and without duplicates.

        https://… ftp://…          with a scheme
        www.shop.com  //shop.com   without one: they count as http
        shop.com  shop.com/a       the same, if the name ends in a top-level domain and not like a file
        [text](…)  [ref]: …        Markdown: also 'mailto:' and other schemes, but no relative links
        href=…  src=…  action=…    HTML, the same

    The result is what a browser opens: scheme and host in lower case, without user name, default port and dot segments,
    with '/' for an empty path. So 'https://shop.com@evil.com' is 'https://evil.com/'.
    """
    text = without_entities(text)
    matches = matches_in(text, _ANY_LINK)
    if isinstance(matches, Unknown) or any(groups[6] and groups[6].find(":") > _LONGEST_SCHEME for groups in matches):
        matches = matches_in(text, _LINK)
    if isinstance(matches, Unknown):
        return matches
    for whole in {str(groups[0]) for groups in matches}:
        text = text.replace(whole, " ")
    bare = bare_links(text)
    if len(matches) + len(bare) > MAX_FOUND:
        return Unknown(f"a string has more than {MAX_FOUND:,} links")
    links = [link for groups in matches for link in _links_of(groups[1:])]
    return list(dict.fromkeys([*links, *(_opened(_without_end(f"http://{link}")) for link in bare)]))


def _links_of(groups: list[str | None]) -> Iterator[str]:
    """The links of one match; a value of an attribute is one link."""
    attribute = next((group for group in groups[:3] if group is not None), None)
    run = next((group for group in groups[3:] if group is not None), "")
    parts = [re.sub(r"[\t\r\n]", "", attribute)] if attribute is not None else parted(run or "")
    for part in parts:
        link = _without_end(part.strip("".join(map(chr, range(33)))))
        if link := _opened(f"http://{link}" if part is not parts[0] and "://" not in link else link):
            yield link


def _without_end(link: str) -> str:
    """The link without the punctuation of its sentence."""
    return link.rstrip(".,;:!?*_~")


def _opened(link: str) -> str:
    """The link as a browser opens it; empty for a relative one."""
    scheme, slashes, host, path, rest = _LINK_PARTS.fullmatch(link.replace("\\/", "/")).groups(default="")  # type: ignore[union-attr]
    scheme = scheme.lower()
    if not scheme and len(slashes) < 2 and not (host.lower().startswith("www.") and not slashes):
        return ""
    if scheme not in _WEB and scheme and len(slashes) < 2:
        return f"{scheme}:{slashes}{host}{path}{rest}"
    scheme = scheme or "http"
    return f"{scheme}://{_host(host, _WEB.get(scheme, ''))}{_path(path)}{rest}"


def _host(authority: str, default_port: str) -> str:
    """The host and port."""
    address = authority.rpartition("@")[2]
    host, _, port = address.rpartition(":") if re.search(r":[0-9]*$", address) else (address, "", "")
    host = unicodedata.normalize("NFKC", unquote(host)).lower().replace("\u3002", ".").rstrip(".")
    return f"{host}:{port}" if port not in ("", default_port) else host


def _path(path: str) -> str:
    """The path without dot segments."""
    kept: list[str] = []
    segments = path.replace("\\", "/").split("/")[1:]
    for segment in segments:
        dots = segment.lower().replace("%2e", ".")
        if dots == ".." and kept:
            kept.pop()
        elif dots not in (".", ".."):
            kept.append(segment)
    ends_open = bool(segments) and segments[-1].lower().replace("%2e", ".") in (".", "..") and kept
    return "/" + "/".join(kept) + ("/" if ends_open else "")


# --- tokens, as a rule judges them one by one

_BETWEEN_PARTS = re.compile(r"[;\r\n]|,(?![0-9])|(?<![0-9]),")
_URL = re.compile(r"[a-z][a-z0-9+.-]{1,20}+://[^\s\"'<>\x00]++", re.IGNORECASE)
_LETTER = re.compile(r"[^\W0-9_]")
_LIKE_ADDRESS = re.compile(r"\w[./\\:!]\w\w")
_PUNCTUATION = " \t\"'<>()[]{}"


@rule_function("tokens", ("text",), result="list")
def _tokens(text: str) -> list[str]:
    """`tokens(text)`: the values in a string that a rule judges one by one.

    These are the identifying tokens, in their normal form, and what may name another recipient beside them: a part
    between commas, semicolons and line breaks that has no token, the words beside mere numbers, and words like
    addresses.
    """
    return list(_items(text))


@cache
def _scanner() -> Scanner:
    return Scanner()


@lru_cache(1024)
def _items(text: str) -> tuple[str, ...]:
    reader = LeafReader()
    reader.read(text)
    items: list[str] = []
    for leaves in reader.by_labels.values():
        items += (item for leaf in leaves.strings for item in _items_of_leaf(leaf))
        items += (token for name in leaves.names for token in _tokens_in(name))
        items += (number for number in leaves.numbers if number[:1] != SHORT)
    return tuple(dict.fromkeys(filter(None, items))) or (text,)


def _items_of_leaf(text: str) -> Iterator[str]:
    tokens = _tokens_in(text)
    yield from tokens or [text]
    for part in _BETWEEN_PARTS.split(_URL.sub(" ", normalized(text))) if tokens else ():
        yield from _unnamed(part)


def _tokens_in(text: str) -> list[str]:
    """The identifying tokens, and names with a dot and the like: a string with two of them may name two recipients."""
    return [token.readings[0] for token in _scanner().read(text).tokens if token.identifies or token.is_name]


def _unnamed(part: str) -> Iterator[str]:
    """Words of a part that may be a recipient, and are not a token."""
    tokens = _tokens_in(part)
    words = [word.strip(_PUNCTUATION) for word in part.split()]
    if any(map(_LETTER.search, tokens)):
        yield from (word for word in words if _LIKE_ADDRESS.search(word) and not _tokens_in(word))
    elif rest := " ".join(word for word in words if _LETTER.search(word)):
        yield rest


# --- one token in a value

MAX_TOKEN = 1_000  # characters
MAX_WORDS = 5_000  # by which a value is indexed
MAX_TRIED = 200  # occurrences, before one regular expression searches the rest
_EDGE = 4  # characters
_W = r"\pL\pN\pM_"  # of words
_JOINS = r".@+'\x{2019}\x{2010}\x{2011}\-"  # between two word characters, they join words
_JOINS_ONLY = r"@+'\x{2019}\x{2010}\x{2011}"  # not before a number, as a point or a minus
_AT_EDGE = r"[\w.@+'\u2019\u2010\u2011-]"
_UNSPACED = r"|[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"  # words without spaces between


@rule_function("mentions", (), ("text", "number"), result="truth value")
def _mentions(value: Any, token: Any) -> Truth:
    """`mentions(value, x)`: whether a string or number occurs as a whole token in a value, at any depth.

    The strings of the value are searched, and the content of a string that is JSON; the keys of a mapping are not. A
    token is not part of a longer word, number, e-mail address or identifier: 'W1' is not a token of 'W10', 'W1-2' and
    'W1@shop.com'. A number is found by its value, in a string too: 98.7 in '98.70'; 1234 in '1.234' is unknown, as
    this may be 1.234.

    An occurrence that differs in case, width, spacing or invisible characters is unknown, and so is one next to a word
    of a script without spaces, and the string '500' when the text contains only the number 500.
    """
    text = _digits(token) if kind_of(token) == "number" else str(token).strip()
    if isinstance(text, Unknown):
        return text
    if not re.search(r"\w", text):
        return Unknown("a token contains no word or number")
    if len(text) > MAX_TOKEN or any("\ud800" <= char <= "\udfff" for char in text):
        return Unknown("a token is too long, or not valid Unicode")
    return disjunction(_in_leaf(leaf, token, text) for leaf in _leaves(value))


def words_of(value: Any) -> list[str | None]:
    """The words, in lower case, without which a value does not mention a token; with None if that cannot be said."""
    leaves = [(leaf, kind_of(leaf)) for leaf in _leaves(value) if type(leaf) is not bool]
    texts: list[Any] = [_digits(leaf) if kind == "number" else leaf for leaf, kind in leaves if kind]
    if len(texts) < len(leaves) or not all(type(text) is str and text.isascii() for text in texts):
        return [None]
    words = list(dict.fromkeys(word for text in texts for word in _ASCII_WORD.findall(text.lower())))
    return words if len(words) <= MAX_WORDS else [None]


def words_of_token(token: Any) -> list[str | None]:
    """The words of a token, all of which a value has that mentions it; None if that cannot be said."""
    if type(token) is not str or not token.isascii() or len(token.split()) != 1 or len(token) > MAX_TOKEN:
        return [None]
    return list(_ASCII_WORD.findall(token.lower())) or [None]


_ASCII_WORD = re.compile(r"[a-z0-9_]+")


def _leaves(value: Any) -> Iterator[Any]:
    """The strings, numbers and other leaves of a value, and of the JSON in its strings."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        kind = kind_of(part)
        if kind == "mapping":
            waiting += part.values()
        elif kind in ("list", "set"):
            waiting += part
        elif part is not None:
            yield part
        if kind == "text" and part.lstrip()[:1] in ("{", "[", '"'):
            content = parsed(str(part))
            waiting += [] if type(content) is Unknown else [content]


def _in_leaf(leaf: Any, token: Any, text: str) -> Truth:
    kind = kind_of(leaf)
    if type(leaf) is Unknown:
        return leaf
    if kind == "text":
        in_text = _in_text(str(leaf), text)
        return (
            in_text
            if in_text is True or kind_of(token) != "number"
            else disjunction((in_text, _has_value(str(leaf), token)))
        )
    if kind == "number":
        return equal(leaf, token) if kind_of(token) == "number" else _alike(leaf, text)
    return False if kind else Unknown(f"a {kind_name(leaf)} cannot be searched")


def _has_value(text: str, number: Any) -> Truth:
    """Whether a text has a number with a value, however it is written."""
    key, is_ambiguous = number_key(abs(number)), False
    for written in set(NUMBER.findall(text)):
        keys = readings(written, short=True)
        sign = "-" if number < 0 else ""
        if key in keys and has_token(text, sign + written):
            if len(keys) == 1:
                return True
            is_ambiguous = True
    return Unknown("it occurs only as a number that can be read in two ways") if is_ambiguous else False


def _alike(number: Any, text: str) -> Truth:
    digits = _digits(number)
    if isinstance(digits, Unknown):
        return digits
    return Unknown("it occurs as a number, not as a string") if digits == text else False


def _in_text(whole: str, text: str) -> Truth:
    if text in whole:
        if not _is_valid(whole):
            return _INVALID
        if has_token(whole, text):
            return True
    if whole.isascii() and text.isascii() and " " not in text and text.lower() not in whole.lower():  # the common case
        return False
    folded, alike = _folded(text), _folded(whole)
    if folded in alike and not _is_valid(alike):
        return _INVALID
    if folded in alike and has_token(alike, folded, unspaced=True):
        return Unknown("it occurs only with other case, spacing or characters, or without a space around it")
    return False


def _is_valid(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def has_token(whole: str, text: str, *, unspaced: bool = False) -> bool:
    """Whether a text occurs as a whole token; with `unspaced`, also beside words of a script without spaces.

    The characters around each occurrence are looked at: a regular expression of each token costs far more to compile.
    """
    before, after = token_edges(text, _UNSPACED if unspaced else "")
    at = whole.find(text)
    for _ in range(MAX_TRIED):
        if at < 0:
            return False
        end = at + len(text)
        if _fits(rf"(?:{before})\z", whole[max(0, at - _EDGE) : at]) and _fits(
            rf"\A(?:{after})", whole[end : end + _EDGE]
        ):
            return True
        at = whole.find(text, at + 1)
    return has_match(whole, before + escaped(text) + after) is True


def _fits(edge: str, around: str) -> bool:
    return compiled(edge).search(around.encode()) is not None


@lru_cache(256)
def token_edges(text: str, beside: str = "") -> tuple[str, str]:
    """The regular expressions of what stands before and after a whole token, at most `_EDGE - 1` characters each."""
    before = after = ""
    if re.match("[0-9]", text):
        before = rf"(?:^|[^{_W}{_JOINS}\x{{2212}},:]|(?:^|[^{_W}])[{_JOINS_ONLY}]|(?:^|[^0-9])[,:]{beside})"
    elif re.match(_AT_EDGE, text):
        before = rf"(?:^|[^{_W}{_JOINS}]|(?:^|[^{_W}])[{_JOINS}]{beside})"
    possessive = rf"['\x{{2019}}]s(?:$|[^{_W}])"
    if re.search(r"[0-9]\Z", text):
        after = rf"(?:$|[^{_W}{_JOINS},:]|[{_JOINS}](?:$|[^{_W}])|[,:](?:$|[^0-9])|{possessive}{beside})"
    elif re.search(rf"{_AT_EDGE}\Z", text):
        after = rf"(?:$|[^{_W}{_JOINS}]|[{_JOINS}](?:$|[^{_W}])|{possessive}{beside})"
    return before, after


def _folded(text: str) -> str:
    """The string without differences that a reader does not see or heed."""
    visible = "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
    return " ".join(visible.casefold().split())


def _digits(value: Any) -> str | Unknown:
    """A number as decimal digits."""
    number = exact(value)
    if type(number) is Unknown:
        return number
    with localcontext(prec=2 * MAX_DIGITS):
        text = f"{Decimal(number.numerator) / Decimal(number.denominator):f}"  # type: ignore[union-attr]
    return text if Fraction(text) == number else Unknown("a number has too many digits")
