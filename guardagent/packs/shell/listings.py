"""Commands that list files: a word made of their output is a pattern of the files that they can list."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

PICKS_SECRETS = re.compile(r"env|pem|key|secret|cred|rsa|ed25519|ssh|aws|token|passw|netrc|gnupg", re.IGNORECASE)
_FILTERS = frozenset("sort uniq head tail grep egrep".split())


def listed(stages: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Patterns of the files that a pipeline lists; empty if it is not a listing.

    Args:
        stages: the words of its commands.
    """
    if not stages or not all(map(_is_filter, stages[1:])):
        return ()
    name, *words = stages[0] or [""]
    if any(word == "" or word.startswith("/dev/fd/") for word in words):
        return ()
    if name == "git":
        lists = words[:1] == ["ls-files"] or (words[:1] in (["diff"], ["show"]) and "--name-only" in words)
        if not lists and not (words[:1] == ["grep"] and {"-l", "--name-only"} & set(words)):
            return ()
        names = [word for word in words[1:] if re.fullmatch(r"\*\.\w+", word)] if words[0] == "ls-files" else []
        return tuple(_inside(".", name) for name in names or ["*"])
    if name == "find":
        return _found(words)
    plain = [word for word in words if not word.startswith("-")]
    if name in ("grep", "egrep", "rg") and any(
        re.fullmatch(r"-[a-zA-Z]*l[a-zA-Z0]*|--files-with-matches", word) for word in words
    ):
        return () if {"-e", "-f"} & set(words) else _searched(words, plain[1:] or ["."])
    if name == "rg" and "--files" in words:
        return tuple(_inside(operand) for operand in plain or ["."])
    if name == "ls":
        return tuple(operand if re.search(r"[*?\[]", operand) else "*" for operand in plain or ["."])
    return ()


def listed_by(command: str) -> tuple[str, ...]:
    """The same for the text of a pipeline."""
    if re.search(r"[;&$`<>(){}\n]", re.sub(r"'[^']*'", "", command.replace("2>/dev/null", ""))):
        return ()
    try:
        reader = shlex.shlex(command.replace("2>/dev/null", ""), posix=True, punctuation_chars="|")
        reader.whitespace_split, reader.commenters = True, ""
        stages: list[list[str]] = [[]]
        for word in reader:
            stages = [*stages, []] if word == "|" else [*stages[:-1], [*stages[-1], word]]
        return listed(stages)
    except ValueError:
        return ()


def _searched(words: Sequence[str], folders: Sequence[str]) -> tuple[str, ...]:
    names = [word.partition("=")[2] for word in words if word.startswith("--include=")]
    return tuple(_inside(folder, name) for folder in folders for name in names or ["*"])


def _found(words: Sequence[str]) -> tuple[str, ...]:
    at = next((n for n, word in enumerate(words) if word.startswith(("-", "(", "!"))), len(words))
    tests = words[at:]
    if any(test.startswith(("-exec", "-ok", "-delete", "-f")) or test == "-printf" for test in tests):
        return ()
    names = [
        tests[n + 1]
        for n in range(len(tests) - 1)
        if tests[n] in ("-name", "-iname") and tests[n - 1] not in ("!", "-not")
    ]
    return tuple(_inside(folder, name) for folder in words[:at] or ["."] for name in names or ["*"])


def _inside(folder: str, name: str = "*") -> str:
    if re.search(r"[*?\[]|\.\w+$", folder) and name == "*" and folder not in (".", ".."):
        return folder
    return f"{folder.rstrip('/')}/**" + ("" if name == "*" else f"/{name}")


def _is_filter(words: Sequence[str]) -> bool:
    if not words or words[0] not in _FILTERS:
        return False
    return words[0] not in ("grep", "egrep") or "-v" in words or not any(map(PICKS_SECRETS.search, words[1:]))
