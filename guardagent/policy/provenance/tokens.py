"""The identifying tokens of a text: addresses, URLs and their hosts, IBANs, telephone numbers, paths, ids and numbers.

A text has many spellings, with full-width, invisible and encoded characters; it is normalized to one first. Recording
and looking up share one scanner, so that a recorded token is found however it is spelled.

Every pass takes linear time, also on hostile input: each alternative of the scanner's expression begins where a word
begins and never gives characters back.
"""

from __future__ import annotations

import binascii
import html
import re
import unicodedata
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from posixpath import normpath
from typing import NamedTuple
from urllib.parse import unquote

from guardagent._support.syntax import compile_pattern
from guardagent.policy.language.values import Unknown, exact

# --- one spelling

ROUNDS = 3  # of nested encodings
_PERCENT = re.compile("%[0-9A-Fa-f]{2}")
_ENTITY = re.compile("&(?:#[0-9A-Za-z]{1,8}|[A-Za-z]{2,31});")
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")
_SPELLED = re.compile(r" {0,2}[\[({] {0,2}(at|dot) {0,2}[\])}] {0,2}", re.IGNORECASE)
_SPELLED_SIGN = re.compile(r"[\[({] {0,2}(?:[aA][tT]|[dD][oO][tT]) {0,2}[\])}]")
_SPACED_SIGN = re.compile(r"(?<=[^\s,;:]) {1,2}@ {0,2}(?=[\w-]{1,63}\.\w)|@ {1,2}(?=[\w-]{1,63}\.\w)")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
_PUNYCODE = re.compile(r"(?<![\w-])xn--([a-z0-9-]{1,59})", re.IGNORECASE)


def normalized(text: str) -> str:
    """Returns a text in NFKC, without invisible characters, and with its encoded characters decoded."""
    text = visible(text)
    for _ in range(ROUNDS):
        decoded = _decoded(text)
        if decoded == text:
            break
        text = visible(decoded)
    return text


def visible(text: str) -> str:
    """Returns a text in NFKC, without invisible characters, and with ASCII digits."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text)
    signs = "".join(set(text))  # much shorter than a long text
    if _INVISIBLE.search(signs):
        text = _INVISIBLE.sub("", text)
    if _FOREIGN_DIGIT.search(signs):
        text = _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0], digit[0])), text)
    return text


def appearance(text: str) -> str:
    """Returns a text as it looks: visible, case-folded, and without spaces, blanks and control characters."""
    shown = "".join(sign for sign in visible(text) if sign.isprintable() and sign not in " \u2800")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", shown).casefold())


def _decoded(text: str) -> str:
    if "%" in text and _PERCENT.search(text):
        text = unquote(text, errors="replace")
    if "&" in text and _ENTITY.search(text):
        text = html.unescape(text)
    if "\\" in text:
        text = _ESCAPE.sub(_character, text)
    if "--" in text:
        text = _PUNYCODE.sub(_of_punycode, text)
    if "@" in text and (" @" in text or "@ " in text):
        text = _SPACED_SIGN.sub("@", text)
    if ("[" in text or "(" in text or "{" in text) and _SPELLED_SIGN.search(text):
        text = _SPELLED.sub(lambda word: "@" if word[1].lower() == "at" else ".", text)
    return text


def _character(escape: re.Match[str]) -> str:
    code = int(escape[1], 16)
    return escape[0] if 0xD800 <= code < 0xE000 else chr(code)


def _of_punycode(label: re.Match[str]) -> str:
    try:
        unicode = unicodedata.normalize("NFKC", label[1].encode().decode("punycode"))
    except UnicodeError:
        return label[0]
    is_label = not unicode.isascii() and all(sign in "-_" or unicodedata.category(sign)[0] in "LMN" for sign in unicode)
    return unicode if is_label else label[0]  # no host has this name, or it would read as several


# --- scanning

MIN_LENGTH = 4  # characters of a string, digits of a number: shorter ones say nothing about their source
SHORT_KEY = 64  # characters; longer strings are stored as a hash
CACHED = 2000  # characters; the tokens of shorter strings are cached
DEPTH = 2  # of base64 in base64
_LARGE = 10**300  # no float is much larger
_HUGE = 10**4000  # Python refuses to write the digits of larger numbers
_PHONE = range(7, 16)  # digits
_LONGEST_PHONE = 40  # characters
_IBAN = 15  # characters, at least
_MAIL_AT, _TAIL_AT = 1, 2  # the groups of the expression
_LONG_WORD = 16  # characters of a word that may be base64

_EXPRESSION = r"""
(?<![\w.+%@/~\\-])(?:
  ([a-z][a-z0-9+.-]{1,20}://[^\s"'<>\x00]++)
 |([\w.+%=-]{1,64}+@(?:[\w-]{1,63}+\.)*[\w-]{1,63}+)
    (?=(\.?(?:[!#$%&'*+/\\=^`{|}~][^\s,;:?<>()\[\]"@\x00]*?\.\w
             |\u3002\w
             |[^\x00-\x7f\s\u00ab\u00bb\u2013-\u201e\u2026\u2039\u203a\u3001\u3002\u3008-\u3011])
        [^\s,;:?<>()\[\]"@\x00]*+)?)
 |([a-z]{2}[0-9]{2}(?:\ ?[a-z0-9]{4}){2,7}(?:\ ?[a-z0-9]{1,3})?(?![a-z0-9]))
 |((?:~|\.{1,2}|[a-z]:)?[/\\][^\s"'<>|,;()\[\]{}\x00]++)
 |((?:[\w-]{1,63}+[./\\])+[a-z][\w-]{1,62}+)
 |(\[[0-9a-f]*:[0-9a-f:.]*+\]|[0-9._-]*+[^\W0-9_][\w.-]*+(?![.,]?[0-9]))
)
|(@[\w\[][^\s"'<>,;()\x00]*+)
|(\+?[0-9]++(?:[ ()./,-]{1,2}[0-9]++)*+)
"""
_ASCII, _ANY = re.compile(_EXPRESSION, re.VERBOSE | re.ASCII), re.compile(_EXPRESSION, re.VERBOSE)
_MAIL = re.compile(r"(?<![\w.+%=-])[\w.+%-]{1,64}+@(?:[\w-]{1,63}+\.)*[\w-]{1,63}+")
_DIGITS, _NUMBER = re.compile("[0-9]+"), re.compile("[0-9]+(?:[.,][0-9]+)*")
_ENGLISH = re.compile(r"([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.([0-9]+))?")
_GERMAN = re.compile(r"([0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+)(?:,([0-9]+))?")
_EXTENSION = re.compile(r"\.[a-z]\w{0,7}$")
_BASE64 = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{16,}+={0,2}")
_LETTER = re.compile("[^\\W0-9_]")
_HOST = re.compile(r"(?m)(?<=://)(?:[^/?#\\\n@]*@)*(\[[^\]/?#\\\n@]*\]|[^/?#\\:\n@]+)")
_URL = re.compile(r"(?<![\w.+%@/~\\-])[A-Za-z][A-Za-z0-9+.-]{1,20}+://[^\s\"'<>\x00]++")
_WHOLE_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}+://[^ ]++")  # a program that takes a URL drops line breaks in it
_NO_HOST = re.compile(r"[^\w.:\[\]-]")
_STRANGE = "\ua66e"  # a letter for a character that no address has: nothing that was seen has it
_FOUR_DIGITS = re.compile(r"(?:[0-9][^0-9]*+){4}")
_SPACES = dict.fromkeys(map(ord, "\t\r\n"), " ")
_WHITESPACE = "\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"
_LETTERS = bytes(code for code in range(128) if chr(code).isalpha() or chr(code) in "_-")
_CLASSES = bytes.maketrans(
    _LETTERS + _WHITESPACE.encode() + b"123456789@/\\%&+[({\x00",
    b"a" * len(_LETTERS) + b" " * len(_WHITESPACE) + b"0" * 19,
)
_BASE64_SIGNS = _LETTERS + b"0123456789+/"
_RUNS, _LONG_RUN = bytes.maketrans(_BASE64_SIGNS, b"a" * len(_BASE64_SIGNS)), b"a" * _LONG_WORD
_CANDIDATE = (
    r"[^\s0-9@/\\.]*+(?:[0-9@/\\]|\.\S)\S*+"  # a word with a sign of a token, other than a full stop at its end
)
_CANDIDATES = re.compile(rf"(?<!\S){_CANDIDATE}(?: {{1,2}}(?:{_CANDIDATE}|[a-z]{{4}}(?!\S)))*+")
_AFTER_HOST = ".,;!?'*`)}"
_TRAILING = ".,:;!?'*_=`)]}"


class SourceToken(NamedTuple):
    """An identifying token.

    Attributes:
        readings: its spellings; it was seen if one of them was.
        identifies: whether one that was never seen comes from the model.
        parts: the tokens that it may consist of instead.
        near: the spellings of tokens that contain it, such as the parents of a host.
        within: the spellings of tokens in it that say little about it, such as the numbers in a mail address.
    """

    readings: tuple[str, ...]
    identifies: bool = True
    parts: tuple[SourceToken, ...] = ()
    near: tuple[str, ...] = ()
    within: tuple[str, ...] = ()

    def spellings(self) -> Iterator[str]:
        """The strings under which the token is recorded."""
        yield from self.readings
        for part in self.parts:
            yield from part.spellings()


class TextReading(NamedTuple):
    """A string for the lookup: its own keys, and its tokens."""

    keys: tuple[str, ...]
    tokens: tuple[SourceToken, ...]


class Scanner:
    """Finds the tokens of texts.

    Args:
        ids: the expressions of the policy for its ids (RE2).
    """

    def __init__(self, ids: Sequence[str] = ()) -> None:
        self._ids = compile_pattern(rf"\b(?:{'|'.join(ids)})\b") if ids else None
        self._cached = lru_cache(4096)(self._read)

    def read(self, text: str) -> TextReading:
        """Reads one string."""
        return self._cached(text) if len(text) < CACHED else self._read(text)

    def _read(self, text: str) -> TextReading:
        if self._ids is None and _is_plain(text):
            key = key_of(text.lower())
            return TextReading((key,) if key else (), ())
        keys: list[str] = []
        tokens: list[SourceToken] = []
        visible = normalized(text)
        for plain in _texts_in(visible.replace("\x00", _STRANGE)):
            keys += filter(None, [key_of(plain.lower())])
            for columns in _scanned(plain.lower()):
                tokens += _tokens_of(columns)
            tokens += (SourceToken((id_,)) for id_ in self._ids_in(plain))
        if "://" in text:
            known = {reading for token in tokens for reading in token.readings}
            hosts = chain(_written_hosts(_URL.findall(text) if text != visible else ()), _other_hosts(text))
            tokens += (SourceToken((host,)) for host in hosts if host not in known)
        return TextReading(tuple(keys), tuple(tokens))

    def recorded(self, texts: Iterable[str]) -> set[str]:
        """The keys of many strings: their own, and those of their tokens."""
        keys: set[str] = set()
        written = "\x00".join(texts)
        text = normalized(written)
        if text != written and "://" in written:
            keys.update(_written_hosts(_URL.findall(written)))
        for plain in _texts_in(text):
            whole = map(str.strip, _squeezed(plain).lower().split("\x00"))
            keys.update(
                [word if len(word) <= SHORT_KEY else _hashed(word) for word in whole if len(word) >= MIN_LENGTH]
            )
            matches = _scanned(plain.lower())
            for kind, column in zip(KINDS, zip(*matches, strict=True), strict=False):
                matched_texts = set(column)
                matched_texts.discard("")
                keys.update(kind.keys(matched_texts))
            keys.update(match[_MAIL_AT] + match[_TAIL_AT] for match in matches if match[_TAIL_AT])
            keys.update(self._ids_in(plain))
        keys.discard("")
        return keys

    def words(self, text: str, longest: int) -> set[str]:
        """The keys of all sequences of words of a text."""
        words = [word.strip(_TRAILING + '([{"') for word in normalized(text).lower().split()]
        runs = (" ".join(words[at : at + size]) for size in range(1, longest + 1) for at in range(len(words)))
        return set(filter(None, map(key_of, runs)))

    def _ids_in(self, plain: str) -> list[str]:
        return [] if self._ids is None else [match[0].lower() for match in self._ids.finditer(plain)]


def key_of(folded: str) -> str:
    """The index key of a whole string; empty if it is too short."""
    text = _squeezed(folded).strip()
    return _hashed(text) if _is_long(text) else ""


def _is_long(text: str) -> bool:
    return len(text) >= MIN_LENGTH


def _hashed(text: str) -> str:
    return text if len(text) <= SHORT_KEY else blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def number_key(value: float | Decimal | Fraction) -> str:
    """The key of a number, as its digits; empty if it has less than four."""
    if type(value) is int:
        return "" if -1000 < value < 1000 else str(abs(value)) if -_HUGE < value < _HUGE else hex(value)
    whole, _, fraction = str(value).lstrip("-").partition(".")
    if not (whole + fraction).isdecimal():  # an exponent, a fraction, or no number
        number = exact(value)
        if isinstance(number, Unknown):
            return ""
        if not -_LARGE < number < _LARGE:
            return hex(int(number))
        whole, _, fraction = f"{float(number):.12f}".lstrip("-").partition(".")
    return _canonical(whole, fraction)


def _squeezed(text: str) -> str:
    """The text with one space between words."""
    if not text.isascii():
        return " ".join(text.split())
    for sign in _WHITESPACE:
        if sign in text:
            text = text.replace(sign, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _is_plain(text: str) -> bool:
    """Whether a text has no sign of a token, of an encoding, or of base64; False if that is not quickly seen."""
    if not text.isascii() or "--" in text:
        return False
    signs = text.encode().translate(_CLASSES)
    return (
        b"0" not in signs.replace(b". ", b" ").rstrip(b" ").rstrip(b".").replace(b".", b"0") and _LONG_RUN not in signs
    )


def _scanned(folded: str) -> list[tuple[str, ...]]:
    """The matches of the expression: for each, a string for the kind that matches, and empty ones for the others."""
    text = _condensed(folded)
    return (_ASCII if text.isascii() else _ANY).findall(text)


def _tokens_of(columns: Sequence[str]) -> Iterator[SourceToken]:
    """The tokens of one match."""
    mail, tail = columns[_MAIL_AT], columns[_TAIL_AT]
    if tail:  # what stands before it may be another's address
        yield SourceToken((mail + tail,), near=(mail,))
        return
    for kind, column in zip(KINDS, columns, strict=True):
        if column:
            yield from kind.read(column)


def _other_hosts(text: str) -> Iterator[str]:
    """Hosts that a program can find in a text because it drops line breaks in a URL, or ends it elsewhere."""
    text = text.strip()
    whole = _WHOLE_URL.match(text if " " in text else "".join(text.split())) if len(text) < CACHED else None
    return _written_hosts([whole[0]] if whole else [])


def _written_hosts(urls: Iterable[str]) -> Iterator[str]:
    """The hosts of URLs whose encoded characters are decoded last."""
    for host in (host for url in urls for host in _hosts(url) if _host_key(host)):
        yield _NO_HOST.sub(_STRANGE, _host_key(normalized(_host_key(host)).lower()))


def _hosts(text: str) -> list[str]:
    """The hosts in a URL: browsers read a backslash as a slash, and other programs do not."""
    hosts = _HOST.findall(text)
    if "\\" in text:
        hosts += _HOST.findall(text.replace("\\", _STRANGE))
    return hosts


def _condensed(text: str) -> str:
    """The text without plain words, which contain no token, except for those inside of an IBAN with spaces."""
    return "\n".join(_CANDIDATES.findall(text))


def _texts_in(text: str, depth: int = DEPTH) -> Iterator[str]:
    """The text, and the texts that its base64 words encode."""
    yield text
    if not depth or _LONG_RUN not in text.encode("utf-8", "replace").translate(_RUNS):
        return
    long = {word for word in text.split() if len(word) >= _LONG_WORD}
    mixed = [word for word in long if not (word.islower() or word.isupper())]  # as base64 nearly always is
    for word in set(_BASE64.findall("\n".join(mixed))) if mixed else ():
        if word.islower() or word.isupper() or word.isdecimal():
            continue
        body = word.rstrip("=").replace("+", "-").replace("/", "_")
        try:
            inner = urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
        except (binascii.Error, ValueError):
            continue
        if len(inner) >= MIN_LENGTH and inner.translate(_SPACES).isprintable():
            yield from _texts_in(normalized(inner), depth - 1)


# --- the kinds of tokens


class Kind(NamedTuple):
    """A kind of tokens.

    Attributes:
        read: the tokens of one match, for the lookup.
        keys: the keys of many matches, for recording: at least those of their tokens.
    """

    read: Callable[[str], Iterable[SourceToken]]
    keys: Callable[[set[str]], Iterable[str]]


def _url(text: str) -> Iterator[SourceToken]:
    yield SourceToken((_url_key(text),))
    for host in map(_host_key, _hosts(text)):
        labels = host.split(".")
        yield SourceToken((host,), near=tuple(".".join(labels[at:]) for at in range(1, len(labels) - 1)))
        yield from (SourceToken((label,), identifies=False) for label in labels if _is_long(label))
    for part in _inside(text):
        yield SourceToken((part,), identifies="@" in part)


def _url_keys(texts: set[str]) -> Iterable[str]:
    return chain(map(_url_key, texts), map(_host_key, _hosts("\n".join(texts))), _keys_inside(texts))


def _host_key(host: str) -> str:
    return host.rstrip(_AFTER_HOST)


def _url_key(text: str) -> str:
    return text.rstrip(_TRAILING).rstrip("/")


def _mail(text: str) -> Iterator[SourceToken]:
    yield SourceToken((text.lstrip(".=%"),), within=_numbers_in(text))


def _sign(text: str) -> Iterator[SourceToken]:
    """A handle, or the end of an address whose beginning is not a word."""
    yield SourceToken((text.rstrip(_TRAILING),), within=_numbers_in(text))


def _sign_keys(texts: set[str]) -> Iterable[str]:
    return chain((text.rstrip(_TRAILING) for text in texts), _number_keys(texts))


def _code(text: str) -> Iterator[SourceToken]:
    """A word with letters and a number, or an IPv6 address."""
    if within := _numbers_in(text):
        yield SourceToken((text.rstrip(_TRAILING),), within=within)


def _code_keys(texts: set[str]) -> Iterable[str]:
    keys = {text.rstrip(_TRAILING) for text in texts if _FOUR_DIGITS.search(text)}
    return chain(keys, _number_keys(keys))


def _mail_keys(texts: set[str]) -> Iterable[str]:
    return chain(
        [text.lstrip(".=%") for text in texts], [text.rpartition("@")[2] for text in texts], _number_keys(texts)
    )


def _iban(text: str) -> Iterator[SourceToken]:
    if " " not in text and len(text) >= _IBAN:
        yield SourceToken((text,))
        return
    groups = text.split(" ")
    whole = ["".join(groups[: at + 1]) for at in range(len(groups))]
    readings = tuple(prefix for prefix in reversed(whole) if len(prefix) >= _IBAN)
    numbers = tuple(_numbers(text))
    yield from [SourceToken(readings, parts=numbers)] if readings else numbers


def _iban_keys(texts: set[str]) -> Iterable[str]:
    compact = [text for text in texts if " " not in text and len(text) >= _IBAN]
    others = texts.difference(compact)
    return chain(compact, (key for text in others for token in _iban(text) for key in token.spellings()))


def _path(text: str) -> Iterator[SourceToken]:
    path = _path_key(text)
    if _is_long(path) and _LETTER.search(path):
        yield SourceToken((path,), within=tuple(_inside(text)))
    else:
        yield from _numbers(text)


def _path_keys(texts: set[str]) -> Iterable[str]:
    return chain(map(_path_key, texts), _keys_inside(texts))


def _path_key(text: str) -> str:
    path = text.rstrip(_TRAILING).replace("\\", "/")
    return normpath(path) if path[:1] == "." or path[-1:] == "/" or "//" in path or "/." in path else path


def _name(text: str) -> Iterator[SourceToken]:
    if "/" not in text and "\\" not in text:
        yield SourceToken((text,), identifies=False, within=_numbers_in(text))
    else:
        yield from _path(text) if _EXTENSION.search(text) else _numbers(text)


def _name_keys(texts: set[str]) -> Iterable[str]:
    return chain([_path_key(text) for text in texts if _EXTENSION.search(text)], _number_keys(texts))


def _inside(text: str) -> Iterator[str]:
    """The spellings of the tokens in the path and the query of a URL, or in a path."""
    if "@" in text:
        yield from _MAIL.findall(text)
    yield from _numbers_in(text)


def _keys_inside(texts: set[str]) -> Iterable[str]:
    whole = "\n".join(texts)
    return chain(_MAIL.findall(whole) if "@" in whole else (), _number_keys(texts))


def _numbers_in(text: str) -> tuple[str, ...]:
    return tuple(reading for token in _numbers(text) for reading in token.readings)


def _run(text: str) -> Iterator[SourceToken]:
    """A number, or the groups of digits of a telephone number."""
    numbers, phone = tuple(_numbers(text)), _phone(text)
    yield from [SourceToken((phone,), parts=numbers)] if phone else numbers


def _run_keys(texts: set[str]) -> Iterable[str]:
    return chain(_number_keys(texts), [_phone(text) for text in texts if not text.isdecimal()])


def _phone(text: str) -> str:
    """The digits of a telephone number; empty for another run of digits."""
    if len(text) > _LONGEST_PHONE or _NUMBER.fullmatch(text):
        return ""
    groups = _DIGITS.findall(text)
    digits = "".join(groups).lstrip("0")
    return digits if len(digits) in _PHONE else ""


def _numbers(text: str) -> Iterator[SourceToken]:
    return (SourceToken(readings) for match in _NUMBER.findall(text) if (readings := _readings(match)))


def _number_keys(texts: set[str]) -> list[str]:
    numbers = {number for number in _NUMBER.findall("\n".join(texts)) if len(number) >= MIN_LENGTH}
    keys = [number.lstrip("0") for number in numbers if number.isdecimal()]
    if len(keys) < len(numbers):
        keys += (reading for number in numbers if not number.isdecimal() for reading in _readings(number))
    return [key for key in keys if len(key) >= MIN_LENGTH]


def _readings(text: str) -> tuple[str, ...]:
    """The numbers that a text can mean: 1,234.00 is 1234, and 1.234 is that or 1234."""
    if text.isdecimal():
        digits = text.lstrip("0")
        return (digits,) if _is_long(digits) else ()
    readings = [
        _canonical(match[1].replace(separator, ""), match[2] or "")
        for pattern, separator in ((_ENGLISH, ","), (_GERMAN, "."))
        if (match := pattern.fullmatch(text))
    ]
    if not readings:  # a date, a version or an address
        return (text,) if sum(map(str.isdecimal, text)) >= MIN_LENGTH else ()
    return tuple(dict.fromkeys(filter(None, readings)))


def _canonical(whole: str, fraction: str) -> str:
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    if len(whole) + len(fraction) < MIN_LENGTH:
        return ""
    return f"{whole or 0}.{fraction}" if fraction else whole


KINDS = (  # in the order of the groups of the expression
    Kind(_url, _url_keys),
    Kind(_mail, _mail_keys),
    Kind(lambda _: (), lambda _: ()),  # what follows a mail address without a break
    Kind(_iban, _iban_keys),
    Kind(_path, _path_keys),
    Kind(_name, _name_keys),
    Kind(_code, _code_keys),
    Kind(_sign, _sign_keys),
    Kind(_run, _run_keys),
)
