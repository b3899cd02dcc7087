"""The identifying tokens of a text: addresses, hosts, IBANs, telephone numbers, paths, keys, ids and numbers.

A text is read in one spelling. Values in queries and after `name=` are read beside the whole. Recording and looking
up share one scanner, so that a recorded token is found however it is spelled.

Every pass takes linear time, also on hostile input: each alternative of the scanner's expression begins where a word
begins and never gives characters back.
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from posixpath import normpath
from typing import NamedTuple

from guardagent._support.syntax import compile_pattern
from guardagent.policy.provenance import prose
from guardagent.policy.provenance.amounts import (
    MIN_LENGTH,
    NUMBER,
    SHORT,
    card,
    joined,
    keys_before_unit,
    keys_in_groups,
    readings,
)
from guardagent.policy.provenance.hosts import LONGEST, before_sentence, is_host, parted, sentences_apart
from guardagent.policy.provenance.spelling import normalized, with_hidden

# --- scanning

SHORT_KEY = 64  # characters; longer strings are stored as a hash
CACHED = 2000  # characters; the tokens of shorter strings are cached
DEPTH = 2  # of base64 in base64
_GROUPS = re.compile("[ .-]")
_BETWEEN_LINKS = re.compile("[,;|]")
_DOUBT = "? "  # begins the key of what may be a host or an address
_IBAN = 15  # characters, at least
_MAIL_AT, _TAIL_AT = 1, 2  # the groups of the expression
_MIXED_LENGTH, _MIXED = 8, 3  # characters of a mixed word; changes between letters and digits in one that identifies
_PARTS = dict.fromkeys(map(ord, '&?#;|<>"\n'), "\x00")
_PATH_PARTS = _PARTS | dict.fromkeys(map(ord, "/\\:"), "\x00")
_HIDES_VALUE = re.compile(r"[@/\\+?~%&#]|.{17}")  # in a word whose value the scan of the text may not see
_LONG_WORD = 16  # characters of a word that may be base64

_EXPRESSION = r"""
(?<![\w.+%@/~\\-])(?:
  ([a-z][a-z0-9+.-]{1,20}://[^\s"'<>\x00]++)
 |([\w.+%=-]{1,64}+@(?:[\w-]{1,63}+\.)*[\w-]{1,63}+)
    (?=(\.?(?:[!#$%&'*+/\\=^`{|}~][^\s,;:?<>()\[\]"@\x00]*?\.\w
             |\u3002\w
             |[^\x00-\x7f\s\u00ab\u00bb\u2013-\u201e\u2026\u2039\u203a\u3001\u3002\u3008-\u3011])
        [^\s,;:?<>()\[\]"@\x00]*+)?)
 |([a-z]{2}[0-9]{2}(?:[ .-]?[a-z0-9]{4}){2,7}(?:[ .-]?[a-z0-9]{1,3})?(?![a-z0-9]|\.[a-z]))
 |((?:~|\.{1,2}|[a-z]:)?[/\\][^\s"'<>|,;()\[\]{}\x00]++)
 |((?:[\w-]{1,63}+[./\\])+[^\W\d_][\w-]{1,62}+(?:[/\\]|[?#](?=\w))?+)
 |(\[[0-9a-f]*:[0-9a-f:.]*+\]|[0-9._-]*+[^\W0-9_][\w.-]*+(?![.,]?[0-9]))
)
|(@[\w\[][^\s"'<>,;()\x00]*+)
|((?:[+]|(?<![\w)\]])-)?[0-9]++(?:[ ()./,_'\u2019-]{1,2}[0-9]++)*+)
"""
_ASCII, _ANY = re.compile(_EXPRESSION, re.VERBOSE | re.ASCII), re.compile(_EXPRESSION, re.VERBOSE)
_MAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}+@(?:[\w-]{1,63}+\.)*[\w-]{1,63}+")
_WORDS_APART = dict.fromkeys(map(ord, "\x00:=\"'<>(),;|[]{}"), " ") | dict.fromkeys(map(ord, "/\\@"), "\x00")
_MIXED_PART = re.compile("(?<![a-z0-9])(?=[0-9]{0,40}[a-z])(?=[a-z]{0,40}[0-9])[a-z0-9]{4,}+")
_SIGNS_WITHIN = re.compile("[a-z0-9][#$^*!~]+[a-z0-9]")
_CHANGE = re.compile("[a-z](?=[0-9])|[0-9](?=[a-z])")
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
    _LETTERS + _WHITESPACE.encode() + b"123456789@/\\%&+=[({\x00",
    b"a" * len(_LETTERS) + b" " * len(_WHITESPACE) + b"0" * 20,
)
_BASE64_SIGNS = _LETTERS + b"0123456789+/"
_RUNS, _LONG_RUN = bytes.maketrans(_BASE64_SIGNS, b"a" * len(_BASE64_SIGNS)), b"a" * _LONG_WORD
_CANDIDATE = (
    r"[^\s0-9@/\\.]*+(?:[0-9@/\\]|\.\S)\S*+"  # a word with a sign of a token, other than a full stop at its end
)
_CANDIDATES = re.compile(rf"(?<!\S){_CANDIDATE}(?: {{1,2}}(?:{_CANDIDATE}|[a-z]{{4}}(?!\S)))*+")
_AFTER_HOST = ".,;!?'*`)}"
_AROUND = ".,:;!?'*_=`)]}([{<>\""
_TRAILING = ".,:;!?'*_=`)]}"


class SourceToken(NamedTuple):
    """An identifying token.

    Attributes:
        readings: its spellings; it was seen if one of them was.
        identifies: whether one that was never seen comes from the model.
        parts: the tokens that it may consist of instead.
        near: the spellings of tokens that contain it, such as the parents of a host.
        within: the spellings of tokens in it that say little about it, such as the numbers in a mail address.
        is_name: whether a rule judges it alone although it does not identify: a name with dots, a word with digits.
    """

    readings: tuple[str, ...]
    identifies: bool = True
    parts: tuple[SourceToken, ...] = ()
    near: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    is_name: bool = False

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
        texts = [plain for whole in readings_of(text, visible) for plain in _texts_in(whole)]
        for plain in texts:
            keys += filter(None, [key_of(plain.lower())])
            tokens += self._tokens_in(plain)
        inner = {key for plain in texts for pair in _values_in(plain, paths=True) for key in self._spelled(*pair)}
        is_listed = any(token.identifies or token.is_name for token in tokens)
        if inner and is_listed and ("://" in visible or "&" in visible or " " in visible.strip()):
            tokens += (SourceToken((spelling,), identifies=False) for spelling in sorted(inner))
        elif inner:  # one word, or nothing that a rule judges alone: what stands around the values is not judged
            tokens.append(SourceToken((), identifies=False, within=tuple(sorted(inner))))
        if "://" in text:
            known = {reading for token in tokens for reading in token.readings}
            hosts = chain(_written_hosts(_URL.findall(text) if text != visible else ()), _other_hosts(text))
            tokens += (SourceToken((host,)) for host in hosts if host not in known)
        return TextReading(tuple(keys), tuple(tokens))

    def _tokens_in(self, plain: str) -> Iterator[SourceToken]:
        folded = sentences_apart(plain).lower()
        condensed = _condensed(folded)
        for columns in _scanned(condensed):
            yield from _tokens_of(columns)
        for word in _mixed_words(condensed):
            yield SourceToken(
                (_hashed(word),), identifies="." not in word and len(_CHANGE.findall(word)) >= _MIXED, is_name=True
            )
        yield from (SourceToken((id_,)) for id_ in self._ids_in(plain))

    def _spelled(self, values: set[str], words: str) -> Iterator[str]:
        """The keys of values and of the tokens in them."""
        yield from filter(None, (key_of(value.rstrip("=").lower()) for value in values))
        for plain in _texts_in(words.replace("\x00", "\n")):
            yield from (spelling for token in self._tokens_in(plain) for spelling in token.spellings())

    def recorded(self, texts: Iterable[str]) -> set[str]:
        """The keys of many strings: their own, and those of their tokens."""
        keys: set[str] = set()
        scanned: list[str] = []
        written = with_hidden("\x00".join(texts))
        text = normalized(written)
        if text != written and "://" in written:
            keys.update(_written_hosts(_URL.findall("\n".join(word for word in written.split() if "://" in word))))
        plain_texts = list(_texts_in(text))
        for values, words in [pair for plain in plain_texts for pair in _values_in(plain)]:
            keys.update(_whole_keys("\x00".join(value for value in values if value[-1] != "=")))
            scanned.append(words)
            plain_texts += list(_texts_in(words))[1:]
        for plain in plain_texts:
            keys.update(_whole_keys(plain))
        for plain in plain_texts + scanned:
            candidates = _CANDIDATES.findall(sentences_apart(plain).lower())
            condensed = "\n".join(dict.fromkeys(candidates))  # no token contains a line break
            columns = list(zip(*_scanned(condensed), strict=True))
            for kind, column in zip(KINDS, columns, strict=False):
                matched_texts = set(column)
                matched_texts.discard("")
                keys.update(kind.keys(matched_texts))
            if columns and any(columns[_TAIL_AT]):
                keys.update(mail + tail for mail, tail in zip(*columns[_MAIL_AT : _TAIL_AT + 1], strict=True) if tail)
            keys.update(map(_hashed, _mixed_words(condensed)))
            keys.update(self._ids_in(plain))
        keys.discard("")
        return keys

    def runs(self, text: str) -> set[str]:
        """The keys of the runs of words of a text that is recorded."""
        return prose.runs(normalized(text))

    def sought_runs(self, text: str, is_known: Callable[[str], bool]) -> Iterator[str]:
        """The keys of the runs of words that a lookup seeks, also in encoded parts of a text."""
        for plain in _texts_in(normalized(text)):
            yield from prose.sought_runs(plain, is_known)

    def _ids_in(self, plain: str) -> list[str]:
        return [] if self._ids is None else [match[0].lower() for match in self._ids.finditer(plain)]


def words_of(text: str) -> str:
    """The words of a text, with one space around each."""
    return f" {' '.join([word.strip(_AROUND) for word in normalized(text).lower().split()])} "


def short_names(text: str) -> set[str]:
    """The keys of the short words with a capital letter in a message: its names."""
    words = {word.strip(_AROUND) for word in text.split() if len(word) < 2 * MIN_LENGTH}
    return {f"{SHORT} {word.lower()} " for word in words if 1 < len(word) < MIN_LENGTH and word[0].isupper()}


def key_of(folded: str) -> str:
    """The index key of a whole string; empty if it is too short."""
    text = _squeezed(folded).strip()
    return _hashed(text) if _is_long(text) else ""


def _is_long(text: str) -> bool:
    return len(text) >= MIN_LENGTH


def _hashed(text: str) -> str:
    return text if len(text) <= SHORT_KEY else blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _squeezed(text: str) -> str:
    """The text with one space between words."""
    if text.isascii():
        for sign in _WHITESPACE:
            if sign in text:
                text = text.replace(sign, " ")
        if "  " not in text:
            return text
    return " ".join(text.split())


def _is_plain(text: str) -> bool:
    """Whether a text has no sign of a token, of an encoding, or of base64; False if that is not quickly seen."""
    if not text.isascii() or "--" in text:
        return False
    signs = text.encode().translate(_CLASSES)
    return (
        b"0" not in signs.replace(b". ", b" ").rstrip(b" ").rstrip(b".").replace(b".", b"0") and _LONG_RUN not in signs
    )


def readings_of(text: str, visible: str) -> list[str]:
    """The text in one spelling, and with its tag characters as text."""
    hidden = with_hidden(text)
    spelled = [visible] if hidden is text else [visible, *map(normalized, hidden.split("\x00"))]
    return [plain.replace("\x00", _STRANGE) for plain in spelled]


def _values_in(text: str, *, paths: bool = False) -> Iterator[tuple[set[str], str]]:
    """The values of queries and of `name=value`, with the names, and those of words; the sign + is a space, too.

    Args:
        text: the text.
        paths: whether the parts of paths count.
    """
    for parts, is_there in ((_PARTS, "=" in text), (_PATH_PARTS, paths and "/" in text and "." in text)):
        if is_there:
            sign = "=" if parts is _PARTS else "/"
            lines = "\n".join(line for line in text.replace("\x00", "\n").split("\n") if sign in line)
            words = [word for word in dict.fromkeys(lines.split()) if sign in word]
            values = _parted("\n".join([lines, *words]).replace("=", "=\n"), parts)  # a name keeps its sign
            hidden = _parted("\n".join(filter(_HIDES_VALUE.search, words)).replace("=", "\n"), parts)
            yield set(map(str.strip, values.split("\x00"))) - {""}, hidden


def _parted(text: str, parts: dict[int, str]) -> str:
    text = _translated(text, parts)
    return text if "+" not in text else f"{text}\x00{text.replace('+', ' ')}"


def _translated(text: str, signs: dict[int, str]) -> str:
    """As `str.translate`, but not slow for other text than ASCII."""
    if text.isascii():
        return text.translate(signs)
    for code, other in signs.items():
        text = text.replace(chr(code), other)
    return text


def _whole_keys(text: str) -> list[str]:
    """The keys of strings that are joined by null characters."""
    strings = map(str.strip, _squeezed(text).lower().split("\x00"))
    return [string if len(string) <= SHORT_KEY else _hashed(string) for string in strings if len(string) >= MIN_LENGTH]


def _mixed_words(condensed: str) -> set[str]:
    """The words of letters and digits, such as keys, hashes and passwords."""
    parts = _translated(condensed, _WORDS_APART).split() if len(condensed) >= _MIXED_LENGTH else ()
    words = {word.strip(_TRAILING) for word in parts if len(word) >= _MIXED_LENGTH and "\x00" not in word}
    return {word for word in words if len(word) >= _MIXED_LENGTH and _is_mixed(word)}


def _is_mixed(word: str) -> bool:
    if word.isdecimal():
        return False
    if _MIXED_PART.search(word) is not None:
        return len(word) > 2 * _MIXED_LENGTH or sum(map(str.isalnum, word)) >= _MIXED_LENGTH
    return _SIGNS_WITHIN.search(word) is not None and any(map(str.isdecimal, word)) and any(map(str.isalpha, word))


def _scanned(text: str) -> list[tuple[str, ...]]:
    """The matches of the expression: for each, a string for the kind that matches, and empty ones for the others."""
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
    long = [word for word in text.split() if len(word) >= _LONG_WORD]
    mixed = {word for word in long if not (word.islower() or word.isupper())}  # as base64 nearly always is
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
    text, *others = parted(text)
    yield SourceToken((_url_key(text),))
    for host in map(_host_key, _hosts(text)):
        yield _of_host(host)
        yield from (SourceToken((label,), identifies=False) for label in host.split(".") if _is_long(label))
    for other in others:
        yield from _url(other) if "://" in other else _name(other)
    for part in _inside(text):
        yield SourceToken((part,), identifies="@" in part)


def _of_host(host: str) -> SourceToken:
    labels = host.split(".") if len(host) <= LONGEST else []
    return SourceToken(
        (host,), near=tuple(".".join(labels[at:]) for at in range(1, len(labels) - 1)), within=_doubtful(host)
    )


def _doubtful(text: str) -> tuple[str, ...]:
    """The keys that leave the labels of a host or an address open, as the next sentence may stick to one of them."""
    shorter = before_sentence(text)
    return (f"{_DOUBT}{text}", *([shorter] if shorter else []))


def _doubts(texts: Iterable[str]) -> list[str]:
    return [_DOUBT + shorter for text in texts if text.count(".") > 1 and (shorter := before_sentence(text))]


def _url_keys(texts: set[str]) -> Iterable[str]:
    whole = "\n".join(texts)
    apart = {part for text in texts for part in parted(text)} if _BETWEEN_LINKS.search(whole) else set()
    urls = {text for text in apart if "://" in text} | texts
    hosts = [_host_key(host) for host in _hosts("\n".join(urls) if apart else whole)]
    return chain(
        map(_url_key, urls), hosts, _doubts(hosts), _keys_inside(urls), _name_keys(apart - urls) if apart else ()
    )


def _host_key(host: str) -> str:
    return host.rstrip(_AFTER_HOST)


def _url_key(text: str) -> str:
    return text.rstrip(_TRAILING).rstrip("/")


def _mail(text: str) -> Iterator[SourceToken]:
    mail = text.lstrip(".=%")
    yield SourceToken((mail,), within=(*_numbers_in(text), *_doubtful(mail)))


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
    return chain(keys, _number_keys(keys), keys_before_unit(texts))


def _mail_keys(texts: set[str]) -> Iterable[str]:
    mails = [text.lstrip(".=%") for text in texts]
    return chain(mails, _doubts(mails), [text.rpartition("@")[2] for text in texts], _number_keys(texts))


def _iban(text: str) -> Iterator[SourceToken]:
    groups = _GROUPS.split(text)
    whole = ["".join(groups[: at + 1]) for at in range(len(groups))]
    ibans = tuple(prefix for prefix in reversed(whole) if len(prefix) >= _IBAN)
    numbers = tuple(_numbers(text)) if len(groups) > 1 else ()
    yield from [SourceToken(ibans, parts=numbers, within=_account(ibans[0]))] if ibans else numbers


def _iban_keys(texts: set[str]) -> Iterable[str]:
    compact = [text for text in texts if len(text) >= _IBAN and text.isalnum()]
    accounts = [account.lstrip("0") for text in compact if (account := text[4:]).isdecimal()]
    others = texts.difference(compact) if len(compact) < len(texts) else ()
    tokens = [token for text in others for token in _iban(text)]
    return chain(compact, accounts, (key for token in tokens for key in (*token.spellings(), *token.within)))


def _account(iban: str) -> tuple[str, ...]:
    """The number of the account in an IBAN, without its country."""
    return (iban[4:].lstrip("0"),) if iban[4:].isdecimal() else ()


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
    head, text, after = _parts(text)
    if is_host(head, after):
        yield _of_host(head)
    elif head == text:
        yield SourceToken((text,), identifies=False, within=(*_numbers_in(text), *_doubtful(text)), is_name=True)
    else:
        yield from _path(text) if _EXTENSION.search(text) else _numbers(text)


def _name_keys(texts: set[str]) -> Iterable[str]:
    parts = list(map(_parts, texts))
    hosts = [head for head, _, after in parts if is_host(head, after)]
    paths = [_path_key(text) for _, text, _ in parts if _EXTENSION.search(text)]
    return chain(paths, hosts, _doubts(head for head, *_ in parts), _number_keys(texts))


def _parts(text: str) -> tuple[str, str, str]:
    """The name before the first slash, the whole without a sign at its end, and what follows the name."""
    whole = text.rstrip("/\\?#")
    head = whole.replace("\\", "/").partition("/")[0]
    return head, whole, text[len(head) :] + "/"[: text[-1] in "?#"]


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
    """A number, or the groups of digits of a telephone number, an account or a card."""
    text = text.lstrip("+-")
    numbers, digits = tuple(_numbers(text)), card(text)
    if digits:  # known groups in another order are another card
        whole = (key for key in (digits, joined(text)) if key)
        yield SourceToken(tuple(whole), within=tuple(key for token in numbers for key in token.readings))
        return
    digits = joined(text)
    yield from [SourceToken((digits,), parts=numbers)] if digits else numbers


def _run_keys(texts: set[str]) -> Iterable[str]:
    groups = [text for text in texts if not text.isdecimal()]
    digits = [text.lstrip("0") for text in texts if text.isdecimal()]
    keys = [number if len(number) >= MIN_LENGTH else f"{SHORT}{number or 0}" for number in digits]
    return chain(keys, keys_in_groups(groups), map(joined, groups), map(card, groups))


def _numbers(text: str) -> Iterator[SourceToken]:
    return (SourceToken(keys) for match in NUMBER.findall(text) if (keys := readings(match)))


def _number_keys(texts: set[str]) -> list[str]:
    numbers = {number for number in NUMBER.findall("\n".join(texts)) if len(number) >= MIN_LENGTH}
    keys = [number.lstrip("0") for number in numbers if number.isdecimal()]
    if len(keys) < len(numbers):
        keys += (reading for number in numbers if not number.isdecimal() for reading in readings(number))
    return [key for key in keys if len(key) >= MIN_LENGTH]


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
