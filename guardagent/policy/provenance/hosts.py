"""Hosts without a scheme in a text: `tokens`, `sources` and `links` tell them from file names and sentences here.

A name with dots is a host if it ends in a top-level domain of the root zone, or in a name that is reserved for private
networks and examples (`top_level_domains.txt`: the names that the Public Suffix List has at the top, 2026).
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

LONGEST = 253  # characters of a host
_LABEL = r"[\w-]{1,63}+"
_BARE = re.compile(  # after none of the signs of an address or a path, and no beginning of an address or a call
    rf"(?<![\w.+%@/~\\-])(?>((?:{_LABEL}\.)+[^\W\d_][\w-]{{1,62}}+|(?:[0-9]{{1,3}}\.){{3}}[0-9]{{1,3}}(?=[:/])))(?![@(+%])"
    r"((?:\.?(?::[0-9]{1,5})?[/?#\\][^\s\"'<>\x00|,;]*+)?)"
)
_NEXT = re.compile(  # between links without a space
    rf"[,;|]+(?=[A-Za-z][A-Za-z0-9+.-]{{1,30}}:[/\\]|((?:{_LABEL}\.){{1,9}}[^\W\d_][\w-]{{1,62}}))"
)
_ALSO_OTHERS = frozenset(  # endings of files, and fields of programs
    "py md sh rs pl ps zip mov so cc tf pm pub cab properties mk ml st id name now day today date data foo bar new map "
    "call is app page link run list".split()
)
_STARTS = "It|In|Is|At|My|No|So|To|Me|Am|As|Be|By|Do|Us"  # words that begin a sentence, and top-level domains
_SENTENCES = re.compile(rf"\.(?=(?:{_STARTS})\b)(?<=[a-z]{{2}}\.)")


@cache
def _top_level_domains() -> frozenset[str]:
    return frozenset(Path(__file__).with_name("top_level_domains.txt").read_text(encoding="utf-8").split())


@lru_cache(4096)
def is_host(name: str, after: str = "") -> bool:
    """Whether a name with dots is a host.

    Args:
        name: the name, in lower case.
        after: what follows it: with a path, `main.py` is a host too.
    """
    first, _, rest = name.rstrip(".").partition(".")
    last = rest.rpartition(".")[2]
    if len(name) > LONGEST:
        return False
    if not last or (first == "www" and rest != last):
        return bool(last)
    if last not in _top_level_domains() and not last.startswith("xn--"):
        return last.isdigit() and name.count(".") == 3
    return last not in _ALSO_OTHERS or after[:1] in ("/", "\\") or (after[:1] in ("?", "#") and len(after) > 1)


def sentences_apart(text: str) -> str:
    """The text with a space where one is missing between two sentences, so that 'fine.It is' has no host."""
    return _SENTENCES.sub(". ", text) if "." in text else text


def before_sentence(name: str) -> str:
    """The host or address to which a word of the next sentence may stick, as in 'shop.com.They'; else empty."""
    shorter, _, last = name.rpartition(".")
    if "." not in shorter or last in _top_level_domains() or not last.isalpha():
        return ""
    return shorter if is_host(shorter.rpartition("@")[2]) else ""


def bare_links(text: str) -> list[str]:
    """The hosts without a scheme in a text, each with its port, path and query."""
    words = [word for word in text.split() if "." in word] if "." in text else []
    matches = _BARE.findall(sentences_apart("\n".join(words)))
    return [name + rest for name, rest in matches if is_host(name.lower(), rest.lstrip(".:0123456789"))]


def parted(run: str) -> list[str]:
    """The links of a run without a space, as in 'https://a.com,www.b.com'."""
    if not ("," in run or ";" in run or "|" in run):
        return [run]
    parts, start = [], 0
    for match in _NEXT.finditer(run):
        if match[1] is None or is_host(match[1].lower()):
            parts.append(run[start : match.start()])
            start = match.end()
    return [*parts, run[start:]]
