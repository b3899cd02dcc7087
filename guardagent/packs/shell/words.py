"""The values of words in a shell command, as far as they are known without running it."""

from __future__ import annotations

import codecs
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice, product
from typing import Any

from guardagent.packs.shell.listings import listed_by

Word = tuple[str, ...]
"""The possible values of a word; empty if they are unknown."""
DYNAMIC: Word = ()
SUBSTITUTED = "/dev/fd/63"
"""The value of a process substitution: a file with the output of commands."""
MAX_VALUES = 16
MAX_LISTING = 1000  # characters of a substitution whose output is known
_BRACES = re.compile(r"\{([^{}]*(?:,|\.\.)[^{}]*)\}")
# Commands whose output is the working folder, or a word without any meaning to other commands.
_PRINTS = re.compile(
    r"""(?P<folder>pwd|git\ rev-parse\ --show-toplevel)
    | (?P<branch>git\ (?:branch\ --show-current|rev-parse\ --abbrev-ref\ HEAD|symbolic-ref\ --short\ HEAD))
    | (?:which|command\ -v)\ (?P<program>[\w.-]+)
    | (?P<setup>(?:pyenv|rbenv|nodenv|goenv|direnv|conda|mamba|fnm|brew|mise|zoxide|opam|ssh-agent|minikube)
      (?:\ [\w.-]+)*\ ?(?:init\ -?\w*|hook\ ?\w*|shellenv|env|docker-env|-s))
    | date(?:\ [+'"%\w:-]+)* | nproc | whoami | hostname | uname(?:\ -\w+)* | id\ -[ug]n?
    | git\ rev-parse\ (?:--short(?:=\d+)?\ |--verify\ |-q\ )*[\w.~^@/-]+ | git\ merge-base\ [\w./\ -]+
    | cat\ [\w./-]*pid[\w.-]*
    | git\ describe[\w\ .=-]* | git\ log\ -1\ --(?:format|pretty)=(?:format:)?['"]?%[hH]['"]?
    | git\ rev-list\ --count\ [\w./~^-]+ | lsof\ (?:[\w:-]+\ )*-t[\w:-]*(?:\ [\w:-]+)*
    | [^;&$`\n]*\|\s*(?:wc\ -[lcw]|grep\ -c\ [^|;&$`\n]*) | wc\ -[lcw]\ *<\ *[\w./-]+ | grep\ -c\ [^|;&$`\n]*
    | grep\ -n(?:\ -m\ ?1)?\ (?:'[^']*'|"[^"]*"|\w+)\ [\w./-]+\ *(?:\|\ *(?:head|tail)\ -n?\ ?1\ *)?
      \|\ *cut\ -d:\ -f1(?:\ *\|\ *(?:head|tail)\ -n?\ ?1)?""",
    re.VERBOSE,
)
_TEMPORARY = re.compile(r"mktemp(?: -[dqu]+| --directory| -t(?= \w)| --suffix=[.\w-]+| (?:/tmp/)?[\w.-]*X{3,}[\w.]*)*")
_HERE_DOCUMENT = re.compile(
    r"cat <<-?[ ]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)\n(?P<text>.*)\n\s*(?P=end)", re.DOTALL
)
NUMBER = "12345"
"""The value of a number, or another word of the output of a command, that is no option and no path."""
_HOME = {"HOME": ("~",), "PWD": (".",), "OLDPWD": DYNAMIC, "TMPDIR": ("/tmp",), "USER": ("user",)} | dict.fromkeys(  # noqa: S108
    ("!", "?", "#", "$", "RANDOM", "SECONDS", "UID", "EUID", "PPID", "LINENO"), (NUMBER,)
)


def text_of(node: Any) -> str:
    """The source of a node."""
    return str(node.text.decode())


def word_of(node: Any, variables: Mapping[str, Word]) -> Word:
    """The possible values of a word."""
    values = (one for value in _values(node, variables) for one in _expanded(value))
    found = tuple(dict.fromkeys(islice(values, MAX_VALUES + 1)))
    return found if 0 < len(found) <= MAX_VALUES else DYNAMIC


def _values(node: Any, variables: Mapping[str, Word]) -> Word:  # noqa: C901 - a case for each kind
    match node.type:
        case "word" | "number" | "command_name" if not node.named_children:
            return (_unescaped(text_of(node)),)
        case "command_name":
            return _values(node.named_children[0], variables)
        case "raw_string":
            return (_quoted(text_of(node)[1:-1]),)
        case "ansi_c_string":
            return (_quoted(_ansi(text_of(node)[2:-1])),)
        case "string" | "translated_string":
            return _string(node, variables)
        case "concatenation":
            return _joined(_values(part, variables) for part in node.children)
        case "simple_expansion" | "expansion":
            values = _variable(node, variables)
            return DYNAMIC if any(map(_splits, values)) else values
        case "brace_expression":
            return (text_of(node),)
        case "process_substitution":
            return (SUBSTITUTED,)
        case "command_substitution":
            return _printed(text_of(node)[2:-1].strip()) or _part_of_path(node, variables)
        case "extglob_pattern" | "regex":
            return (text_of(node),)
        case kind if not node.is_named:
            return (kind,)
    return DYNAMIC


def _printed(command: str) -> Word:
    """The output of a command, if it is known without running it."""
    short = command if len(command) < MAX_LISTING else ""
    if found := _PRINTS.fullmatch(short):
        if found["program"]:
            return (f"/usr/bin/{found['program']}",)
        known = {"folder": ".", "setup": ":", "branch": "HEAD"}
        return (known.get(found.lastgroup or "", NUMBER),)
    if _TEMPORARY.fullmatch(short):
        return ("/tmp/temporary",)  # noqa: S108 - a path that `mktemp` makes
    if files := listed_by(short):
        return files
    found = _HERE_DOCUMENT.fullmatch(command)
    is_literal = found is not None and (found["quote"] or not re.search(r"[$`\\]", found["text"]))
    return (_quoted(found["text"]),) if found is not None and is_literal else DYNAMIC


def _string(node: Any, variables: Mapping[str, Word]) -> Word:
    """A string in double quotes. The text between its parts is kept: the parser drops some white space."""
    parts: list[Word] = []
    source, at = node.text, 1
    for child in node.children[1:-1] if node.children[0].type == '"' else node.named_children:
        start, end = child.start_byte - node.start_byte, child.end_byte - node.start_byte
        parts.append((source[at:start].decode(),))
        at = end
        if child.type == "string_content":
            parts.append((_quoted(re.sub(r"\\([$`\"\\\n])", r"\1", text_of(child))),))
        elif child.type in ("simple_expansion", "expansion"):
            parts.append(_variable(child, variables))
        elif child.is_named:
            parts.append(_values(child, variables))
        else:
            parts.append((text_of(child),))
    return _joined(parts)


def _joined(parts: Iterable[Word]) -> Word:
    found: list[str] = [""]
    for values in parts:
        found = [before + value for before, value in product(found, values)]
        if not found or len(found) > MAX_VALUES:
            return DYNAMIC
    return tuple(found)


def _variable(node: Any, variables: Mapping[str, Word]) -> Word:
    found = _EXPANSION.fullmatch(text_of(node))
    if found is None:
        return DYNAMIC
    name = found["name"] or found["braced"]
    values = variables.get(name, _HOME.get(name, DYNAMIC))
    if found["old"]:
        return tuple(value.replace(found["old"], found["new"], -1 if found["all"] else 1) for value in values)
    return tuple(_cut(value, found["cut"], found["pattern"]) for value in values) if found["cut"] else values


def _cut(value: str, sign: str, pattern: str) -> str:
    """The value of `${value%pattern}` and its like."""
    is_end = sign[0] == "%"
    ends = range(len(value) + 1) if is_end == (len(sign) > 1) else range(len(value), -1, -1)
    for at in ends:
        kept, part = (value[:at], value[at:]) if is_end else (value[at:], value[:at])
        if fnmatchcase(part, pattern):
            return kept
    return value


def _part_of_path(node: Any, variables: Mapping[str, Word]) -> Word:
    """The output of `dirname` and `basename` for known words."""
    command = node.named_children[0] if len(node.named_children) == 1 else None
    if (
        command is None
        or command.type != "command"
        or text_of(command.named_children[0]) not in ("dirname", "basename")
    ):
        return DYNAMIC
    words = [_values(child, variables) for child in command.named_children[1:]]
    if not words or not all(words) or any(word[0].startswith("-") for word in words):
        return DYNAMIC
    if text_of(command.named_children[0]) == "dirname":
        return tuple(posixpath.dirname(value) or "." for value in words[0])
    suffixes = words[1] if words[1:] else ("",)
    return tuple(posixpath.basename(value.rstrip("/")).removesuffix(suffixes[0]) for value in words[0])


_EXPANSION = re.compile(
    r"\$(?:(?P<name>\w+|[!?#$])|\{(?P<braced>\w+)(?:(?P<cut>%%?|##?)(?P<pattern>[\w./*,-]+)"
    r"|/(?P<all>/?)(?P<old>[\w.,-]+)/(?P<new>[\w./,-]*))?\})",
    re.ASCII,
)


def _splits(value: str) -> bool:
    """Whether a value outside of quotes becomes several words, or none."""
    return not value or any(sign.isspace() for sign in value)


_QUOTED = {"*": "\ue000", "?": "\ue001", "[": "\ue002", "{": "\ue003", "~": "\ue004"}
_PLAIN = {mark: sign for sign, mark in _QUOTED.items()}


def _quoted(text: str) -> str:
    """Marks the characters of a quoted string that would otherwise expand."""
    return "".join(_QUOTED.get(sign, sign) for sign in text)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(\n|.)", lambda match: "" if match[1] == "\n" else _quoted(match[1]), text, flags=re.DOTALL)


def _ansi(text: str) -> str:
    try:
        return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")
    except ValueError:
        return text


def _expanded(value: str) -> Iterator[str]:
    """The words of a brace expansion, with the marks of quoted characters removed."""
    found = _BRACES.search(value)
    if found is None:
        yield "".join(_PLAIN.get(sign, sign) for sign in value)
        return
    items = found[1].split(",") if "," in found[1] else found[1].split("..")[:2]
    for item in items[: MAX_VALUES + 1]:
        yield from _expanded(value[: found.start()] + item + value[found.end() :])
