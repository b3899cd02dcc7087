"""Programs that read code of their own language from an option, a file or their input: awk, sed, psql, gdb, ..."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

# --- sed

_REGEX = r"(?:\[\^?\]?[^\]]*\]|\\.|[^\\/\n\[])*"
_ADDRESS = (
    rf"(?:\d+(?:~\d+)?|\$|/{_REGEX}/[IM]*|\\(?P<sign{{0}}>[^\\\n])(?:\\.|(?!(?P=sign{{0}}))[^\\])*(?P=sign{{0}})[IM]*)"
)
_SED_ADDRESS = re.compile(
    rf"(?:[\s;{{}}!]|{_ADDRESS.replace('{0}', '1')}(?:\s*,\s*(?:[+~]\d+|{_ADDRESS.replace('{0}', '2')}))?)*", re.DOTALL
)
_SED_TEXT = re.compile(r"(?:[^\\\n]|\\.)*", re.DOTALL)
_SED_SIMPLE = re.compile(r"[=dDgGhHnNpPxFz](?=\s*(?:$|[;}\n#]))|[lqQL]\s*\d*|[:btTv][^\n;}]*|#[^\n]*")


def sed_files(script: str) -> tuple[list[str], list[str]] | None:
    """The files that a script of sed reads, and those that it writes; None if it runs commands or cannot be read."""
    files: dict[str, list[str]] = {"r": [], "w": []}
    at = 0
    while (at := _end(_SED_ADDRESS.match(script, at), at)) < len(script):
        sign = script[at]
        if sign in "sy":
            end = _of_substitution(script, at, files["w"])
        elif sign in "rRwW":
            name, _, _rest = script[at + 1 :].partition("\n")
            files[sign.lower()].append(name.strip())
            end = at + 1 + len(name)
        elif sign in "aic":
            end = _end(_SED_TEXT.match(script, at + 1), at)
        else:
            end = _end(_SED_SIMPLE.match(script, at), at)
        if end <= at:
            return None
        at = end
    return files["r"], files["w"]


def _of_substitution(script: str, at: int, writes: list[str]) -> int:
    sign = re.escape(script[at + 1 : at + 2])
    part = rf"(?:\\.|(?!{sign})[^\\])*"
    regex = rf"(?:\[\^?\]?[^\]\n]*\]|\\.|(?!{sign})[^\\\[])*" if script[at] == "s" else part
    match = re.compile(rf"{regex}{sign}{part}{sign}([gpiImM\d]*)(?:w([^\n]*)|(?=\s*(?:$|[;}}#\n])))", re.DOTALL).match(
        script, at + 2
    )
    if not sign or match is None:
        return at
    writes += [match[2].strip()] if match[2] else []
    return match.end()


def _end(match: re.Match[str] | None, at: int) -> int:
    return at if match is None else match.end()


# --- other languages

_AWK = re.compile(r"system\s*\(|getline|\|\s*\"|>\s*\"(?!/dev/std)|@load|\|&|@include")
_SQL = {
    "psql": re.compile(r"\\(?:!|copy|o\b|w\b|i\w*\b|g\s*\||setenv)|COPY\b.*\bPROGRAM\b", re.IGNORECASE),
    "sqlite3": re.compile(
        r"\.(?:shell|system|output|once|load|read|excel|backup|save)\b|\.import\b.*\||load_extension|writefile|edit\("
    ),
    "mysql": re.compile(r"\\!|(?:^|[;\n])\s*(?:system|source|tee|pager)\s|INTO\s+(?:OUT|DUMP)FILE", re.IGNORECASE),
}
_DEBUGGER = re.compile(
    r"^(?!(?:(?:thread apply all )?(?:bt|backtrace)(?: \w+)*|r|run|q|quit|info [\w ]+|set (?:pagination|confirm) off"
    r"|(?:b|break|tbreak|p|print|x|list|l|frame|f|up|down|c|continue|n|next|s|step|where|#)\b[^!(`|]*)?$).+",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class CodeReader:
    """A program that reads code.

    Attributes:
        options: those whose value is a file with code.
        takes_input: whether its input is code, if no option names a file.
        danger: what code must not have; None if that is not known for any code.
        decides: whether a file that nobody has seen can lose data that is elsewhere.
    """

    options: tuple[str, ...]
    takes_input: bool
    danger: re.Pattern[str] | None
    decides: bool = False


_VIM = CodeReader(("-s", "-S", "-u"), takes_input=True, danger=None)
CODE_READERS: dict[str, CodeReader] = {
    **dict.fromkeys("awk gawk mawk nawk".split(), CodeReader(("-f", "--file"), takes_input=False, danger=_AWK)),
    "sed": CodeReader(("-f", "--file"), takes_input=False, danger=None),
    **dict.fromkeys(("sqlite3", "duckdb"), CodeReader(("-init",), takes_input=True, danger=_SQL["sqlite3"])),
    **dict.fromkeys(("mysql", "mariadb"), CodeReader((), takes_input=True, danger=_SQL["mysql"], decides=True)),
    **dict.fromkeys(
        "psql sqlcmd cqlsh snowsql clickhouse-client mongosh mongo".split(),
        CodeReader(("-i", "-f", "--file", "--queries-file"), takes_input=True, danger=_SQL["psql"], decides=True),
    ),
    "gdb": CodeReader(("-x", "--command", "-ix"), takes_input=True, danger=_DEBUGGER),
    "lldb": CodeReader(("-s", "-S", "--source"), takes_input=True, danger=_DEBUGGER),
    "m4": CodeReader((), takes_input=True, danger=re.compile(r"sys(?:cmd|val)|sinclude|include|debugfile|mkstemp")),
    **dict.fromkeys(("vi", "vim", "nvim"), _VIM),
    **dict.fromkeys("just ninja rake ant".split(), CodeReader(("-f", "--justfile"), takes_input=False, danger=None)),
    "java": CodeReader(("-jar", "-cp", "-classpath"), takes_input=False, danger=None),
    "dc": CodeReader(("-f",), takes_input=True, danger=re.compile("!")),
}  # fmt: skip
# Programs whose output is the content of files or databases.
DUMPS = frozenset("cat zcat gunzip gzip xzcat bzcat zstdcat pg_dump mysqldump mariadb-dump sqlite3 head tail".split())


def has_danger(name: str, code: str) -> bool:
    """Whether code of a reader runs commands, uses files, or cannot be read."""
    if name == "sed":
        return sed_files(code) != ([], [])
    danger = CODE_READERS[name].danger
    return danger is None or danger.search(code) is not None


# --- scripts that files of other programs hold, as far as they can be read

_STRING = r"[fr]?(?:\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
_STARTS = re.compile(
    rf"(?:system|popen|Popen|\brun|call|check_output|exec\w*|spawn\w*|shell\w*|passthru|\$)\s*\(\s*"
    rf"(?:(?P<text>{_STRING})|\[(?P<words>(?:\s*{_STRING}\s*,?)+)\])"
)
_REMOVES = re.compile(
    rf"(?:rmtree|rmSync|rm_rf?|unlink\w*|remove\w*)\s*\(\s*(?:[\w.]+\(\s*)?(?:(?P<path>{_STRING})|(?P<home>[\w.]*home\w*\())"
)
_PATH = re.compile(r"[\"'](~?/[^\"'\s]{1,200})[\"']")


def started_scripts(code: str) -> Iterator[str]:
    """The shell commands that code of a common language starts with literal words, and files that it deletes or opens.

    Other commands are not seen: this is for code that is too long to be understood.
    """
    for match in _STARTS.finditer(code):
        if match["text"]:
            yield _content(match["text"])
        else:
            yield shlex.join(map(_content, re.findall(_STRING, match["words"])))
    for match in _REMOVES.finditer(code):
        yield "rm -rf " + (_quoted(_content(match["path"])) if match["path"] else "~")
    for path in _PATH.findall(code):
        yield f"head {_quoted(path)}"


def package_scripts(text: str) -> Iterator[str]:
    """The scripts of a `package.json`, or of a part of one."""
    try:
        scripts = json.loads(text).get("scripts", {})
        yield from map(str, scripts.values())
    except (ValueError, AttributeError, RecursionError):
        yield from (_content(value) for value in re.findall(rf"\"[\w:-]+\"\s*:\s*({_STRING})", text))


def _content(literal: str) -> str:
    return re.sub(r"\\(.)", r"\1", literal.lstrip("fr")[1:-1])


def _quoted(path: str) -> str:
    return path if re.fullmatch(r"[\w./~*-]+", path) else shlex.quote(path)
