"""The commands of a shell script, with their words, redirections and sources of input.

The values of words are known as far as they are known without running the script.
"""

from __future__ import annotations

import codecs
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property, lru_cache
from itertools import islice, product
from typing import Any

from guardagent._support.requirements import install_hint
from guardagent.errors import InputError
from guardagent.packs.shell.listings import listed_by

# --- words

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
    | cat\ [\w./-]*pid[\w.-]* | seq(?:\ -?\d+)+
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
"""The value of a number, or another word of the output of a command, that is neither an option nor a path."""
_HOME = {"HOME": ("~",), "PWD": (".",), "OLDPWD": DYNAMIC, "TMPDIR": ("/tmp",), "USER": ("user",)} | dict.fromkeys(  # noqa: S108
    ("!", "?", "#", "$", "RANDOM", "SECONDS", "UID", "EUID", "PPID", "LINENO"), (NUMBER,)
)


def text_of(node: Any) -> str:
    """The source of a node."""
    return str(node.text.decode())


def word_of(node: Any, variables: Mapping[str, Word]) -> Word:
    """The possible values of a word."""
    values = (text for value in _values(node, variables) for text in _expanded(value))
    word = tuple(dict.fromkeys(islice(values, MAX_VALUES + 1)))
    return word if 0 < len(word) <= MAX_VALUES else DYNAMIC


def exact_words(node: Any, variables: Mapping[str, Word]) -> list[Word]:
    """The words that a word of the script becomes, without the values that only stand for others."""
    values = tuple(dict.fromkeys(_values(node, variables)))
    braces = _BRACES.findall(values[0]) if len(values) == 1 else []
    expanded = list(_expanded(values[0])) if len(braces) == 1 and ".." not in braces[0] else []
    if not any(map(_stands_for_others, values)) and expanded and all(expanded) and values[0].count("{") == 1:
        return [(text,) for text in expanded]
    if (
        len(values) <= MAX_VALUES
        and values
        and not any(_stands_for_others(text) or _BRACES.search(text) for text in values)
    ):
        return [tuple(text for value in values for text in _expanded(value))]
    return [UNKNOWN_WORD if _is_single(node) else DYNAMIC]


def _is_single(node: Any) -> bool:
    """Whether a word of the script becomes exactly one word: what is unknown in it is in quotes."""
    parts = {child.type for child in node.children} if node.type == "concatenation" else {node.type}
    return parts <= _SINGLE and not re.search(r"\$[@*{]?@|[@*]\]|@\}", text_of(node))


def _exact_word(node: Any, variables: Mapping[str, Word]) -> Word:
    words = exact_words(node, variables)
    return words[0] if len(words) == 1 else DYNAMIC


_MARK = "\ue005"
"""The beginning of a value that stands for others, such as that of `$RANDOM`."""
UNKNOWN_WORD: Word = (_MARK,)
"""Exactly one word, of a script that is read exactly; `DYNAMIC` can be any number of them."""
_SINGLE = frozenset(("string", "raw_string", "ansi_c_string", "word", "number"))
MARKS = re.compile("[\ue000-\ue005]")


def _marked(word: Word) -> Word:
    return tuple(_MARK + value for value in word)


def _stands_for_others(value: str) -> bool:
    return _MARK in value


def _values(node: Any, variables: Mapping[str, Word]) -> Word:  # noqa: C901 - a case for each kind
    match node.type:
        case "word" | "number" | "command_name" if not node.named_children:
            return (_unescaped(text_of(node)),)
        case "command_name":
            return _values(node.named_children[0], variables)
        case "raw_string":
            return (_quoted(text_of(node)[1:-1]),)
        case "ansi_c_string":
            text = text_of(node)[2:-1]
            return (("" if _EXACT_ANSI.fullmatch(text) else _MARK) + _quoted(_ansi(text)),)
        case "string" | "translated_string":
            return _string(node, variables)
        case "concatenation":
            is_text = _TEXT_OPTION.fullmatch(text_of(node.children[0]))
            strings = ("string", "translated_string") if is_text else ()
            return _concatenated(
                _values(part, variables) or (_marked((NUMBER,)) if part.type in strings else DYNAMIC)
                for part in node.children
            )
        case "simple_expansion" | "expansion":
            values = _variable(node, variables)
            return DYNAMIC if any(map(_splits, values)) else values
        case "brace_expression":
            return (text_of(node),)
        case "process_substitution":
            return (SUBSTITUTED,)
        case "command_substitution":
            values = _substituted(node, variables)
            return DYNAMIC if any(map(_splits, values)) else values
        case "extglob_pattern" | "regex":
            return (text_of(node),)
        case kind if not node.is_named:
            return (kind,)
    return DYNAMIC


def _substituted(node: Any, variables: Mapping[str, Word]) -> Word:
    text = text_of(node)[2:-1].strip()
    return _here_document(text) or _marked(_printed(text) or _part_of_path(node, variables))


def _printed(command: str) -> Word:
    """The output of a command, if it is known without running it."""
    short = command if len(command) < MAX_LISTING else ""
    if match := _PRINTS.fullmatch(short):
        if match["program"]:
            return (f"/usr/bin/{match['program']}",)
        known = {"folder": ".", "setup": ":", "branch": "HEAD"}
        return (known.get(match.lastgroup or "", NUMBER),)
    if _TEMPORARY.fullmatch(short):
        return ("/tmp/temporary",)  # noqa: S108 - a path that `mktemp` makes
    return listed_by(short)


def _here_document(command: str) -> Word:
    """The output of `cat` for a here-document in which nothing is replaced."""
    match = _HERE_DOCUMENT.fullmatch(command)
    is_literal = match is not None and (match["quote"] or not re.search(r"[$`\\]", match["text"]))
    return (_quoted(match["text"].rstrip("\n")),) if match is not None and is_literal else DYNAMIC


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
        elif child.type == "command_substitution":
            parts.append(_substituted(child, variables))
        elif child.is_named:
            parts.append(_values(child, variables))
        else:
            parts.append((text_of(child),))
    return _concatenated(parts)


def _concatenated(parts: Iterable[Word]) -> Word:
    word: list[str] = [""]
    for values in parts:
        word = [before + value for before, value in product(word, values)]
        if not word or len(word) > MAX_VALUES:
            return DYNAMIC
    return tuple(word)


def _variable(node: Any, variables: Mapping[str, Word]) -> Word:
    match = _PARAMETER.fullmatch(text_of(node))
    if match is None:
        return DYNAMIC
    name = match["name"] or match["braced"]
    is_set = name in variables
    values = variables[name] if is_set else _HOME.get(name, DYNAMIC)
    if match["old"]:
        values = tuple(value.replace(match["old"], match["new"], -1 if match["all"] else 1) for value in values)
    elif match["cut"]:
        values = tuple(_cut(value, match["cut"], match["pattern"]) for value in values)
    return values if is_set else _marked(values)


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


_TEXT_OPTION = re.compile("--(?:author|committer|grep|since|until)=")  # whatever its value is, it is only compared
_PARAMETER = re.compile(
    r"\$(?:(?P<name>\w+|[!?#$])|\{(?P<braced>\w+)(?:(?P<cut>%%?|##?)(?P<pattern>[\w./*,-]+)"
    r"|/(?P<all>/?)(?P<old>[\w.,-]+)/(?P<new>[\w./,-]*))?\})",
    re.ASCII,
)


def _splits(value: str) -> bool:
    """Whether a value outside of quotes becomes several words, or none."""
    return not value or any(sign.isspace() for sign in value)


# Escapes of `$'...'` that bash and Python read in the same way.
_EXACT_ANSI = re.compile(r"(?:[^\\]|\\(?:[nrt\\'\"]|x(?!00)[0-7][0-9a-fA-F](?![0-9a-fA-F])|(?!000)[01][0-7]{2}))*")
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
    match = _BRACES.search(value)
    if match is None:
        yield "".join(_PLAIN.get(sign, sign) for sign in value).replace(_MARK, "")
        return
    items = match[1].split(",") if "," in match[1] else match[1].split("..")[:2]
    for item in items[: MAX_VALUES + 1]:
        yield from _expanded(value[: match.start()] + item + value[match.end() :])


# --- scripts

MAX_CHARACTERS = 20_000
MAX_STAGES = 100  # of a pipeline
MAX_FOLDER = 1_024  # characters: what macOS allows; each command is read with its folder
_SUBSTITUTIONS = ("command_substitution", "process_substitution")
_WRITES = (">", ">>", "&>", "&>>", ">|", "<>", ">&")


# Programs of Windows, which have an ending and are found in any case; and second names of programs.
_WINDOWS_PROGRAM = re.compile(r"(?i)(?:.*\\)?([\w.-]+)\.(?:exe|com)|(?:.*\\)?((?-i:[A-Z])\w*shell)")
_OTHER_NAMES = {"bsdtar": "tar", "gtar": "tar", "gsed": "sed", "gfind": "find", "grm": "rm", "ggrep": "grep"}


@lru_cache(4096)
def _program_name(word: str) -> str | None:
    name = posixpath.basename(word)
    if windows := _WINDOWS_PROGRAM.fullmatch(name):
        name = (windows[1] or windows[2]).lower()
    name = _OTHER_NAMES.get(name, name)
    is_pattern = any(sign in name for sign in "*?[") and name not in ("[", "[[")
    return None if name in ("", NUMBER, "HEAD") or is_pattern else name


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A simple command.

    Attributes:
        words: its name and arguments.
        writes, reads: the targets of its redirections.
        text: what its standard input is, if that is known.
        sources: the commands whose output it uses: earlier ones of its pipeline, and substitutions in its words.
        variables: the names that are set for it alone.
        folder: the working folder, relative to the first one; None if it is unknown.
        settings: the variables that are set for it, with their values; only of a script that is read exactly.
        name: the name without its folder; None if it is not known.
    """

    words: tuple[Word, ...]
    writes: tuple[Word, ...] = ()
    reads: tuple[Word, ...] = ()
    text: str | None = None
    sources: tuple[ShellCommand, ...] = ()
    variables: tuple[str, ...] = ()
    folder: str | None = ""
    settings: tuple[tuple[str, Word], ...] = ()
    name: str | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        is_known = bool(self.words) and len(self.words[0]) == 1
        object.__setattr__(self, "name", _program_name(self.words[0][0]) if is_known else None)


@dataclass(slots=True)
class ShellScript:
    """The commands of a script.

    Attributes:
        readable: whether the whole script could be read.
        recursive: whether a function calls itself.
        variables: the names of the variables that are set.
        functions: the definitions of its functions.
        folder: the working folder at its end; None if it is unknown.
        settings: the variables that are set, with their values; only of a script that is read exactly.
    """

    commands: list[ShellCommand] = field(default_factory=list)
    readable: bool = True
    recursive: bool = False
    variables: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    folder: str | None = ""
    settings: list[tuple[str, Word]] = field(default_factory=list)


def read_script(
    text: str, folder: str | None = "", sources: tuple[ShellCommand, ...] = (), *, exact: bool = False
) -> ShellScript:
    """Reads a script.

    Args:
        text: the script. Lines that end with CRLF are read as bash reads them, and as a host that removes the CR.
        folder: the working folder.
        sources: the commands whose output is its input.
        exact: whether a word is unknown whose value only stands for others, and the folder wherever `cd` may not run.
    """
    if len(text) > MAX_CHARACTERS or "\0" in text or (exact and MARKS.search(text)):
        return ShellScript(readable=False)
    readings = dict.fromkeys(text.replace("\\\r\n", end).replace("\r\n", "\n") for end in ("\\\n", " \n"))
    scripts = [_read_text(reading, folder, sources, exact=exact) for reading in readings]
    return ShellScript(
        [command for script in scripts for command in script.commands],
        all(script.readable for script in scripts),
        any(script.recursive for script in scripts),
        [name for script in scripts for name in script.variables],
        scripts[0].functions,
        scripts[0].folder,
        [setting for script in scripts for setting in script.settings],
    )


def _read_text(
    text: str, folder: str | None, sources: tuple[ShellCommand, ...] = (), *, exact: bool = False
) -> ShellScript:
    try:
        parsed = _parsed(text.encode("utf-8", "surrogatepass"))
        if parsed is None:
            return ShellScript(readable=False)
        reader = _Reader(*parsed, folder, exact=exact)
        reader.visit(parsed[0], sources)
        reader.read_rest()
    except RecursionError:
        return ShellScript(readable=False)
    return reader.finished()


# --- what bash does before it reads words, and what the grammar does not read

MAX_PASSES = 6
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
# Reserved words before a compound command, which the grammar takes for a command with arguments.
_COMPOUND = rb"(?=\s+(?:[{(!]|\[\[|(?:if|while|until|for|case|select|function|time|coproc)\b))"
_PREFIX = re.compile(rb"(?:!|time(?:\s+-p|\s+--)*|coproc(?:\s+\w+(?=\s+[{(]))?)" + _COMPOUND)
_RESERVED = frozenset("{ } ! then do done fi esac elif else if while until for case select function [[ ]]".split())
_OPENERS = re.compile(rb"\\.|\$\(|`|[<>]\(", re.DOTALL)
# Text that bash runs although it is quoted: subscripts in arithmetic, and prompts.
_RUN_LATER = re.compile(rb"\w\[(?:\$\(|`)|\$\{[^}]*@P\}")


def _parsed(source: bytes) -> tuple[Any, bytes] | None:
    """The tree of a script as bash reads it, and its text; None if the parser and bash differ in what is quoted."""
    before = None
    for _ in range(MAX_PASSES):
        root = bash_parser().parse(source).root_node
        literals = _literals(root)
        texts = [source[start:end] for start, end in literals]
        if before is not None and before != texts:
            return None
        before, joined = texts, _joined(source, literals)
        if joined == source:
            joined, before = _without_prefixes(source, root), None
        if joined == source:
            return root, source
        source = joined
    return None


def _literals(root: Any) -> list[tuple[int, int]]:
    """The places of text in which bash replaces nothing: single quotes, comments and quoted here-documents."""
    nodes = _descendants(root, "raw_string", "ansi_c_string", "comment", "heredoc_redirect")
    ranges: list[tuple[int, int]] = []
    for node in nodes:
        if node.type != "heredoc_redirect":
            ranges.append((node.start_byte, node.end_byte))
            continue
        parts = {child.type: child for child in node.named_children}
        if "heredoc_body" in parts and re.search(r"[\\'\"]", text_of(parts["heredoc_start"])):
            ranges.append((parts["heredoc_body"].start_byte, parts["heredoc_body"].end_byte))
        ranges.extend(_literals(node))
    return sorted(set(ranges))


def _joined(source: bytes, literals: list[tuple[int, int]]) -> bytes:
    """A script without the line continuations outside of literal text."""
    parts, at = [], 0
    for start, end in [*literals, (len(source), len(source))]:
        joined = _ESCAPED.sub(lambda match: b"" if match[1] == b"\n" else match[0], source[at:start])
        parts += [joined, source[max(at, start) : end]]
        at = max(at, end)
    return b"".join(parts)


def _without_prefixes(source: bytes, root: Any) -> bytes:
    """A script with blanks in place of `time`, `!` and `coproc` before compound commands."""
    for node in _descendants_all(root, "command", "negated_command"):
        if match := _PREFIX.match(source, node.start_byte):
            source = source[: match.start()] + b" " * len(match[0]) + source[match.end() :]
    return source


@cache
def bash_parser() -> Any:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise InputError(f"reading shell commands needs more packages; {install_hint('shell')}") from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def require_parser() -> None:
    """Requires the parser to be installed.

    Raises:
        InputError: it is not; the message says what to install.
    """
    bash_parser()


def _descendants(node: Any, *types: str) -> Iterator[Any]:
    for child in node.named_children:
        if child.type in types:
            yield child
        elif child.named_child_count:
            yield from _descendants(child, *types)


_INSIDE = re.compile(r"(?!.*\.\.)[\w.][\w./-]*")


class _Reader:
    def __init__(self, root: Any, source: bytes, folder: str | None, *, exact: bool = False) -> None:
        self.script, self._folder, self._root, self._source = ShellScript(), folder, root, source
        self._is_exact, self._settings = exact, dict[str, Word]()
        self._variables = _constants(root, _exact_constant if exact else word_of)
        if exact and not _has_plain_variables(root, source):
            self._variables = dict.fromkeys(self._variables, (DYNAMIC, -1))
        self._bodies: list[str] = []  # the functions around
        self._redirects: dict[int, list[Any]] = {}  # those that the grammar gives to the commands around a node
        self._functions = {
            text_of(node.child_by_field_name("name")): node for node in _descendants_all(root, "function_definition")
        }
        self._seen: set[tuple[int, int]] = set()  # the places of commands and substitutions that were read
        self._nested: list[tuple[int, int]] = []  # of text that was read alone

    def visit(self, node: Any, sources: tuple[ShellCommand, ...] = ()) -> list[ShellCommand]:
        """Reads a node; returns the commands whose output is the output of the node."""
        self._seen.add((node.start_byte, node.end_byte))
        if self._redirects and (redirects := self._redirects.pop(node.id, None)) is not None:
            return self._with_redirects(node, redirects, sources)
        read = getattr(self, f"read_{node.type}", None)
        if read is not None:
            return read(node, sources)  # type: ignore[no-any-return]
        return [command for child in node.named_children for command in self.visit(child, sources)]

    def read_subshell(self, node: Any, sources: tuple[ShellCommand, ...]) -> list[ShellCommand]:
        folder, settings = self._folder, dict(self._settings)
        commands = [command for child in node.named_children for command in self.visit(child, sources)]
        self._folder, self._settings = folder, settings
        return commands

    read_process_substitution = read_subshell

    def read_command_substitution(self, node: Any, sources: tuple[ShellCommand, ...]) -> list[ShellCommand]:
        if text_of(node).startswith("`") and "\\" in text_of(node):
            self._nested.append((node.start_byte, node.end_byte))
            return self._read_alone(text_of(node))
        return self.read_subshell(node, sources)

    def _read_alone(self, text: str) -> list[ShellCommand]:
        """Reads the text of a substitution."""
        inner = re.sub(r"\\([$`\\])", r"\1", text[1:-1]) if text.startswith("`") else text[2:-1]
        script = _read_text(inner, self._folder, exact=self._is_exact)
        self.script.commands += script.commands
        self.script.variables += script.variables
        self.script.settings += script.settings
        self.script.readable &= script.readable
        return script.commands

    def finished(self) -> ShellScript:
        """The script, after all of it was read."""
        self.script.readable &= not self._root.has_error
        self.script.functions = [text_of(node) for node in self._functions.values()]
        self.script.folder = self._folder
        if self._is_exact:
            others = self._variables.keys() - {name for name, _ in self.script.settings}
            self.script.settings += [(name, DYNAMIC) for name in sorted(others)]
        return self.script

    def read_rest(self) -> None:
        """Reads the substitutions that the grammar takes for text; the script is unreadable if more was not read."""
        source, literals = self._source, _literals(self._root)
        skipped = sorted([*literals, *self._nested])
        self._require_words(source)
        ends = {end - 1 for _, end in self._seen}
        starts = {start for start, _ in self._seen}
        starts |= {node.start_byte for node in _descendants_all(self._root, "arithmetic_expansion")}
        at = 0
        while match := _OPENERS.search(source, at):
            at, start = match.end(), match.start()
            around = next((end for begin, end in skipped if begin <= start < end), None)
            if around is not None:
                at = around
            elif match[0].startswith(b"\\") or start in starts or (match[0] == b"`" and start in ends):
                continue
            elif match[0][:1] in b"$`" or _is_inside(self._root, start, "expansion"):
                tree = bash_parser().parse(b"echo " + source[start:]).root_node
                node = next(_descendants(tree, *_SUBSTITUTIONS), None)
                if node is None or node.start_byte != len("echo ") or node.has_error:
                    self.script.readable = False
                    return
                self._read_alone(text_of(node))
                at = start + len(node.text)

    def _require_words(self, source: bytes) -> None:
        """Requires that all commands of the tree were read, and that all words of the text are in the tree."""
        commands = _descendants_all(self._root, "command", *_SUBSTITUTIONS)
        is_read = all(
            (node.start_byte, node.end_byte) in self._seen
            or any(start <= node.start_byte < end for start, end in self._nested)
            for node in commands
        )
        at = 0
        for leaf in _leaves(self._root):
            gap = source[at : leaf.start_byte].strip()  # the grammar drops `-` before a here-document
            if gap not in (b"", b"-") and not _is_inside(self._root, at, "heredoc_redirect", "string"):
                is_read = False
            at = max(at, leaf.end_byte)
        self.script.readable &= is_read and not source[at:].strip() and not _RUN_LATER.search(source)

    def read_pipeline(self, node: Any, sources: tuple[ShellCommand, ...]) -> list[ShellCommand]:
        shell_commands: list[ShellCommand] = []
        if len(node.named_children) > MAX_STAGES:
            self.script.readable = False
            return shell_commands
        for child in node.named_children:
            shell_commands = self.visit(child, sources)
            sources = (*sources, *shell_commands)
        return shell_commands

    def read_redirected_statement(self, node: Any, sources: tuple[ShellCommand, ...]) -> list[ShellCommand]:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.named_children if child != body]
        return self._with_redirects(body, redirects, sources)

    def _with_redirects(self, body: Any, redirects: list[Any], sources: tuple[ShellCommand, ...]) -> list[ShellCommand]:
        if (
            self._is_exact and body is not None and body.type in ("list", "pipeline")
        ):  # they are those of the last command
            self._redirects[body.named_children[-1].id] = redirects
            return self.visit(body, sources)
        at = len(self.script.commands)
        inner = [command for redirect in redirects for command in self._inside(redirect)]
        first = len(self.script.commands)
        commands = [] if body is None else self.visit(body, (*sources, *inner))
        if body is None or len(self.script.commands) == first:
            self.script.commands.append(ShellCommand((), folder=self._folder))
        writes, reads, text = self._targets(redirects)
        for number in range(first if body is not None else at, len(self.script.commands)):
            shell_command = self.script.commands[number]
            changed = replace(
                shell_command,
                writes=(*shell_command.writes, *writes),
                reads=(*shell_command.reads, *reads),
                text=shell_command.text or text,
            )
            self.script.commands[number] = changed
            commands = [changed if command is shell_command else command for command in commands]
        sinks = tuple(self.script.commands[first:])
        return [*commands, *(command for redirect in redirects for command in self._sinks(redirect, sinks))]

    def _targets(self, redirects: list[Any]) -> tuple[list[Word], list[Word], str | None]:
        writes: list[Word] = []
        reads: list[Word] = []
        text: str | None = None
        for redirect in redirects:
            if redirect.type == "file_redirect":
                targets = [self._word(child) for child in redirect.children_by_field_name("destination")]
                operator = next((child.type for child in redirect.children if not child.is_named), ">")
                (writes if operator in _WRITES else reads).extend(
                    target for target in targets if not (operator == ">&" and target and target[0].isdigit())
                )
            elif redirect.type == "herestring_redirect":
                value = self._word(redirect.named_children[-1])
                text = value[0] if len(value) == 1 else None
            elif redirect.type == "heredoc_redirect":
                bodies = [child for child in redirect.named_children if child.type == "heredoc_body"]
                lines = "\n".join([*text_of(redirect).split("\n")[1:-1], ""])
                is_literal = re.match(r"<<-?\s*[\\'\"]", text_of(redirect)) is not None
                is_plain = bodies and (is_literal or not re.search(r"(?<!\\)(?:\\\\)*[$`]", lines))
                text = (lines if is_literal else re.sub(r"\\([$`\\])", r"\1", lines)) if is_plain else None
                rest = [
                    c for c in redirect.named_children if c.type not in ("heredoc_start", "heredoc_body", "heredoc_end")
                ]
                later = [child for child in rest if child.type.endswith("_redirect")]  # cat <<EOF > file
                for paths, more in zip((writes, reads), self._targets(later)[:2], strict=True):
                    paths.extend(more)
                for child in (kept_child for kept_child in rest if kept_child not in later):
                    self.visit(child, (ShellCommand(((text or "cat",),), text=text),))
        return writes, reads, text

    def read_command(self, node: Any, sources: tuple[ShellCommand, ...]) -> list[ShellCommand]:
        inner = self._inside(node)
        words: list[Word] = []
        redirects: list[Any] = []
        names: list[str] = []
        settings: dict[str, Word] = {}
        for child in node.named_children:
            if child.type == "variable_assignment":
                names.extend(_setting(child))
                settings |= self._assigned(child)
            elif child.type.endswith("_redirect"):
                redirects.append(child)
            elif child.type != "comment" and self._is_exact:
                words.extend(exact_words(child, self._known_before(child)))
            elif child.type != "comment":
                words.append(self._word(child) or _partly_known(child, words))
        writes, reads, text = self._targets(redirects)
        command = ShellCommand(
            tuple(words), tuple(writes), tuple(reads), text, (*sources, *inner), tuple(names), self._folder,
            tuple({**self._settings, **settings}.items()),
        )  # fmt: skip
        self.script.commands.append(command)
        if command.name in self._bodies:
            self.script.recursive = True
        is_misread = {"{", "}"} & {text_of(child) for child in node.named_children[1:] if child.type == "word"}
        if command.words and (text_of(node.named_children[0]) in _RESERVED or is_misread):
            self.script.readable = False
        self._change_folder(command)
        if self._is_exact and command.name in ("cd", "pushd", "popd"):
            is_known = _is_certain(node) and UNKNOWN_WORD not in command.words
            self._folder = self._folder if is_known else None
        sinks = self._sinks(node, (*command.sources, command))
        body = self._functions.get(command.name or "")
        if body is not None and command.name not in self._bodies and (command.sources or command.reads):
            self._bodies.append(command.name or "")  # its commands have the input of the call
            sinks += self.visit(body.child_by_field_name("body"), command.sources)
            self._bodies.pop()
        return [command, *sinks]

    def _sinks(self, node: Any, sources: tuple[ShellCommand, ...]) -> list[ShellCommand]:
        """Reads the commands that read the output of a node: `>(...)`."""
        sinks = [sink for sink in _descendants(node, *_SUBSTITUTIONS) if sink.text.startswith(b">(")]
        return [command for sink in sinks for command in self.visit(sink, sources)]

    def read_file_redirect(self, node: Any, _: tuple[ShellCommand, ...]) -> list[ShellCommand]:
        """A redirection without a command: `$(<file)`."""
        self._inside(node)
        writes, reads, _text = self._targets([node])
        self.script.commands.append(ShellCommand((), tuple(writes), tuple(reads), folder=self._folder))
        return []

    def _change_folder(self, command: ShellCommand) -> None:
        if command.name not in ("cd", "pushd", "popd"):
            return
        target = [word for word in command.words[1:] if not (word and word[0].startswith("-") and word[0] != "-")]
        if not target:
            self._folder = "~"
        elif not target[0] or target[0][0] == "-" or self._folder is None or command.name == "popd":
            self._folder = None
        elif len(target[0]) > 1 and not all(map(_INSIDE.fullmatch, target[0])):
            self._folder = None  # each of several folders of the project is like the first one
        else:
            folder = posixpath.join(self._folder, target[0][0])
            self._folder = folder if len(folder) <= MAX_FOLDER else None

    def _parameters(self, name: str) -> dict[str, Word]:
        """The values of `$1`, `$2`, ... in a function, if each mention of its name is a call with known words."""
        calls, is_word = None if self._is_exact else self._calls.get(name), re.fullmatch(r"[\w-]+", name)
        text = "" if is_word else text_of(self._root)
        mentions = self._mentions[name] if is_word else len(re.findall(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text))
        if not calls or mentions != len(calls) + 1:
            return {}
        rows = [[word_of(child, {}) for child in call.named_children[1:]] for call in calls]
        return {str(at + 1): _either([row[at] for row in rows]) for at in range(min(map(len, rows)))}

    @cached_property
    def _calls(self) -> dict[str, list[Any]]:
        calls: dict[str, list[Any]] = {}
        for call in _descendants_all(self._root, "command"):
            calls.setdefault(_name_of(call), []).append(call)
        return calls

    @cached_property
    def _mentions(self) -> Counter[str]:
        return Counter(re.findall(r"[\w-]+", text_of(self._root)))

    def read_function_definition(self, node: Any, _: tuple[ShellCommand, ...]) -> list[ShellCommand]:
        name = text_of(node.child_by_field_name("name"))
        outer = self._variables
        self._variables = {**outer, **{key: (word, 0) for key, word in self._parameters(name).items()}}
        self._bodies.append(name)
        self.visit(node.child_by_field_name("body"))
        self._bodies.pop()
        self._variables = outer
        return []

    def read_declaration_command(self, node: Any, sources: tuple[ShellCommand, ...]) -> list[ShellCommand]:
        for child in node.named_children:
            self.visit(child, sources)
        if not any(child.type in ("variable_assignment", "variable_name") for child in node.named_children):
            words = ((text_of(child),) for child in node.children)
            self.script.commands.append(ShellCommand(tuple(words), folder=self._folder))
        elif self._is_exact:
            rest = [
                child for child in node.named_children if child.type not in ("variable_assignment", "variable_name")
            ]
            self.script.readable &= all(_PLAIN_DECLARATION.fullmatch(text_of(child)) for child in rest)
        return []

    def _assigned(self, assignment: Any) -> dict[str, Word]:
        """The variable that an assignment sets, with its value; none where the script is not read exactly."""
        name, value = assignment.named_children[0], assignment.child_by_field_name("value")
        if not self._is_exact:
            return {}
        is_plain = name.type == "variable_name" and "+=" not in text_of(assignment)[: len(name.text) + 2]
        word = ("",) if value is None else _exact_constant(value, self._known_before(value))
        setting = text_of(name), word if is_plain and _is_certain(assignment) else DYNAMIC
        self.script.settings.append(setting)
        return dict([setting])

    def read_variable_assignment(self, node: Any, _: tuple[ShellCommand, ...]) -> list[ShellCommand]:
        self.script.variables.extend(_setting(node))
        self._settings |= self._assigned(node)
        self._inside(node)
        return []

    def read_unset_command(self, node: Any, _: tuple[ShellCommand, ...]) -> list[ShellCommand]:
        words = tuple((text_of(child),) for child in node.named_children)
        self.script.commands.append(ShellCommand((("unset",), *words), folder=self._folder))
        return []

    def _inside(self, node: Any) -> list[ShellCommand]:
        """Reads the substitutions inside of a node, whose output it uses."""
        inputs = [node for node in _descendants(node, *_SUBSTITUTIONS) if not node.text.startswith(b">(")]
        return [command for substitution in inputs for command in self.visit(substitution)]

    def _word(self, node: Any) -> Word:
        return (_exact_word if self._is_exact else word_of)(node, self._known_before(node))

    def _known_before(self, node: Any) -> Mapping[str, Word]:
        known = {name: value for name, (value, start) in self._variables.items() if start < node.start_byte}
        return known | dict.fromkeys(self._variables.keys() - known.keys(), DYNAMIC)


# What an unknown part cannot turn into an option or another address: `http://localhost:$PORT/`, `"X-Id: $ID"`.
_LOCAL = re.compile(r"(?<![\w.@-])(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?=[:/])")
_ADDRESS = re.compile(r"://|(?<![\w@/.])[\w-]+(?:\.[\w-]+)+(?=[\s:/\"']|$)|\s-(?:x|-proxy|-connect-to|K|-config)")
_BEGINNINGS = re.compile(
    r"(?:\"?(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0)[:/]|\"(?:[A-Za-z-]+: |\{|\[))[^$`]*(?=[$`])", re.ASCII
)


def _begun(node: Any) -> Word:
    """The known beginning of a word of `curl`, with `$` for the rest; unknown if the rest matters."""
    match = _BEGINNINGS.match(text_of(node))
    rest, addresses = _LOCAL.subn("", text_of(node.parent))
    return DYNAMIC if match is None or not addresses or _ADDRESS.search(rest) else (match[0].strip('"') + "$",)


# Programs that run or check the files they name, whose unknown arguments matter only if they can be options.
_FILE_RUNNERS = frozenset(
    (part,) for part in "pytest py.test jest vitest mocha rspec phpunit eslint mypy pyright tsc ruff black".split()
)
_VALUED = frozenset((part,) for part in "-k -m -n -t -g -e --grep --shard --project --filter --testNamePattern".split())
_DATABASES = frozenset((part,) for part in "psql pg_dump pg_isready mysql mongosh redis-cli".split())
_CONNECTION = re.compile(r"\"?\$\{?\w*(?:URL|URI|DSN)\}?\"?")
# Files that programs make, in a folder that is not known.
_GENERATED = re.compile(
    r"\"?\$\{?\w+\}?\"?/(?:[\w.-]+/)*[\w*.-]*\.(?:log|tmp|temp|out|bak|pid|lock|pyc|o|gz|cache|html|xml|json|csv|txt)\"?"
)
_FILE_NAME = re.compile(r"\"([\w./][^$`]*)[$`]")


def _partly_known(node: Any, before: list[Word]) -> Word:
    """A word whose unknown part makes no difference, with `$` for that part; otherwise unknown."""
    if before[:1] in ([("curl",)], [("wget",)]):
        return _begun(node)
    if before[:1] and before[0] in _DATABASES and _CONNECTION.fullmatch(text_of(node)):
        return ("$",)
    if before[:1] == [("rm",)] and set(before[1:]) <= {("-f",), ("-v",)} and _GENERATED.fullmatch(text_of(node)):
        return ("$/" + text_of(node).rpartition("/")[2].strip('"'),)
    if before[:1] == [("kill",)] and re.fullmatch(r"\"?\$\{?\w*pid\w*\}?\"?", text_of(node), re.IGNORECASE):
        return (NUMBER,)
    if not _FILE_RUNNERS & set(before):
        return DYNAMIC
    if before[-1] in _VALUED and text_of(node).startswith('"'):
        return ("$",)
    match = _FILE_NAME.match(text_of(node))
    return DYNAMIC if match is None else (match[1] + "$",)


_SETTERS = ("read", "mapfile", "readarray", "getopts", "printf", "let", "source", ".", "eval")


# What sets variables other than by a plain assignment in the shell itself: `((x = 1))`, `${x:=1}`, `{x}>f`, `x=1 &`.
_REBINDS = re.compile(rb"\(\(|\$\[|\$\{\w+:?=|\{\w+\}[<>]|(?<![&<>|])&(?![&>])")
_PLAIN_DECLARATION = re.compile(r"[-+][aAgirx]+")
_UNSURE = ("if_statement", "while_statement", "for_statement", "c_style_for_statement", "case_statement", "pipeline",
           "function_definition")  # fmt: skip


def _has_plain_variables(root: Any, source: bytes) -> bool:
    """Whether only plain assignments and loops over words set the variables of a script."""
    options = (
        child.text
        for node in _descendants_all(root, "declaration_command")
        for child in node.children
        if child.text.startswith((b"-", b"+"))
    )
    others = next(_descendants_all(root, "function_definition", "unset_command", "subscript"), None)
    names = {_name_of(command) for command in _descendants_all(root, "command")}
    return (
        others is None
        and set(options) <= {b"-x", b"-r"}
        and not _REBINDS.search(source)
        and names.isdisjoint((*_SETTERS, "builtin", "command", "trap", "wait", "declare", "typeset", "local"))
    )


def _exact_constant(node: Any, variables: Mapping[str, Word]) -> Word:
    word = _exact_word(node, variables)
    return DYNAMIC if any("{" in value for value in word) else word


def _is_certain(node: Any) -> bool:
    """Whether a part of a script runs in the script's own shell, and in any case if what is before it succeeds."""
    while node is not None:
        before, after = node.prev_sibling, node.next_sibling
        if node.type in _UNSURE or (before and before.type == "||") or (after and after.type == "&"):
            return False
        node = node.parent
    return True


def _constants(
    root: Any, word_of: Callable[[Any, Mapping[str, Word]], Word] = word_of
) -> Mapping[str, tuple[Word, int]]:
    """The values of variables and the place of the first one.

    Values are known if all are literals and the first one is at the top of the script or in the head of a loop.
    """
    values: dict[str, list[Word]] = {}
    certain: set[str] = set()
    first: dict[str, int] = {}
    for node in _assignments(root):
        name_node = node.child_by_field_name("name") or node.child_by_field_name("variable")
        if name_node is None:
            continue
        name = text_of(name_node)
        if node.type == "for_statement":
            words = [word_of(child, {}) for child in node.children_by_field_name("value")]
        else:
            value = node.child_by_field_name("value")
            words = [("",) if value is None else word_of(value, {})]
            words = [DYNAMIC] if "+=" in text_of(node)[: len(name) + 2] else words
        if name not in values and (node.type == "for_statement" or _is_at_top(node)):
            certain.add(name)
        first.setdefault(name, node.start_byte)
        values.setdefault(name, []).extend(words or [DYNAMIC])
    changed: set[str] = set()
    for command in _descendants_all(root, "command"):
        if _name_of(command) in _SETTERS:
            names = {text_of(word) for word in command.named_children[1:]}
            files = _read_files(command)
            if not files or len(names - {"-r"}) != 1:
                changed |= names
                continue
            name = (names - {"-r"}).pop()
            certain.add(name)
            first[name] = min(first.get(name, command.start_byte), command.start_byte)
            values.setdefault(name, []).append(files)
    return {
        name: (_either(words) if name in certain and name not in changed else DYNAMIC, first[name])
        for name, words in values.items()
    }


def _read_files(command: Any) -> Word:
    """The files that `read` in the head of a loop reads from a listing: `git ls-files | while read -r f`."""
    node = command.parent
    while node is not None and node.type in ("variable_assignments", "redirected_statement"):
        node = node.parent
    if _name_of(command) != "read" or node is None or node.type != "while_statement":
        return DYNAMIC
    loop, outer = node, node.parent
    if outer is not None and outer.type == "pipeline" and outer.named_children[-1] == loop:
        source = outer.text[: loop.start_byte - outer.start_byte].decode().strip().removesuffix("|")
        return listed_by(source.strip())
    if outer is not None and outer.type == "redirected_statement":
        inputs = [
            descendant
            for descendant in _descendants(outer, "process_substitution")
            if descendant.start_byte >= loop.end_byte
        ]
        return listed_by(text_of(inputs[0])[2:-1].strip()) if len(inputs) == 1 else DYNAMIC
    return DYNAMIC


# Settings that change no program: `PAGER=cat`, or more folders in `PATH` where package managers install.
_HARMLESS_SETTING = re.compile(
    r"(?:GIT_)?PAGER=(?:cat|less|more|)|(?:GIT_|GIT_SEQUENCE_)?EDITOR=(?:true|:|cat)"
    r"|NODE_OPTIONS=(?:\s*--(?:max-old-space-size=\d+|stack-size=\d+|(?:no|experimental|trace|enable|openssl)-[\w-]+))*"
    r"|GOPROXY=(?:direct|off|https://proxy\.golang\.org(?:,direct)?)|PIP_INDEX_URL=https://pypi\.org/simple/?"
    r"|GIT_SSL_NO_VERIFY=(?:0|false)?|NODE_TLS_REJECT_UNAUTHORIZED=1|ENV=\w*|PATH=(?:(?:^|:|(?<==))(?:\$PATH|\$\{PATH\}|/usr/[\w./-]+|/opt/[\w./-]+|/s?bin|(?:\$PWD/|\$\(pwd\)/|\./)?"
    r"(?:node_modules/\.bin|\.?venv/bin)|(?:~|\$HOME|\$\{HOME\})/\.?(?:cargo|local|bun|deno|nvm|volta|pyenv|rbenv|go|asdf|yarn|npm"
    r"|pnpm|dotnet|poetry|fly|foundry|rye)[\w./-]*)(?=:|$))+"
)


def _setting(assignment: Any) -> tuple[str, ...]:
    """The variable that an assignment sets; empty if it makes no difference to programs."""
    text = text_of(assignment)
    name, _, value = text.partition("=")
    is_harmless = _HARMLESS_SETTING.fullmatch(f"{name}={value.strip(chr(34) + chr(39))}") and ".." not in value
    return () if is_harmless else (text_of(assignment.named_children[0]),)


def _either(words: list[Word]) -> Word:
    """The values of all assignments; unknown if one of them is."""
    values = tuple(value for word in words for value in word)
    return values if all(words) and len(values) <= MAX_VALUES else DYNAMIC


def _assignments(root: Any) -> Iterator[Any]:
    return _descendants_all(root, "variable_assignment", "for_statement")


def _descendants_all(node: Any, *types: str) -> Iterator[Any]:
    for child in node.named_children:
        if child.type in types:
            yield child
        if child.named_child_count:
            yield from _descendants_all(child, *types)


def _leaves(node: Any) -> Iterator[Any]:
    if not node.children:
        yield node
    for child in node.children:
        yield from _leaves(child)


def _is_inside(root: Any, at: int, *types: str) -> bool:
    """Whether a place is inside of a node of one of the types."""
    node = root.descendant_for_byte_range(at, at)
    while node is not None and node.type not in types:
        node = node.parent
    return node is not None


def _is_at_top(node: Any) -> bool:
    parent = node.parent
    while parent is not None and (
        parent.type in ("variable_assignments", "declaration_command")
        or (parent.type == "list" and parent.start_byte == node.start_byte)  # the first of `X=1 && ...`
    ):
        parent = parent.parent
    return parent is not None and parent.type == "program"


def _name_of(command: Any) -> str:
    name = command.child_by_field_name("name")
    return "" if name is None else text_of(name)
