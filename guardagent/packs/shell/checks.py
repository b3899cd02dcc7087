"""Parts that are only known at run time, code of other languages, and options that run commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from guardagent.packs.shell.commands import SHELLS
from guardagent.packs.shell.foreign_code import INTERPRETERS, code_effects, inline_code
from guardagent.packs.shell.script import ShellCommand
from guardagent.packs.shell.words import SUBSTITUTED

# Commands for which an unknown argument makes no difference.
_HARMLESS = frozenset(
    "echo printf test [ [[ true false date basename dirname expr seq sleep exit return wait cd pushd "
    "popd pwd whoami id wc mktemp "
    "uname hostname let shift break continue ls du df which type command pgrep ps set local read".split()
)
_HARMLESS_PAIRS = [(("docker",), (name,)) for name in "logs inspect port top stats images build tag".split()]
_ESCAPES = re.compile(
    r"^--checkpoint-action|^--to-command|^--use-compress-program|^--rsh|^-oProxyCommand|^ProxyCommand=|^LocalCommand=|^-TT$|"
    r"(?:core\.(?:sshCommand|editor|pager|hooksPath|fsmonitor)|diff\.external|credential\.helper)(?:=|$)|alias\.[\w-]+=|"
    r"^--upload-pack=|^--exec=|^--[\w-]*program(?:=|$)|^--rsync-path"
)
_EDITORS = frozenset("vi vim nvim ex ed emacs nano view less more man".split())
_AWK = re.compile(r"system\s*\(|getline|\|\s*\"|>\s*\"|@load")
_SED = re.compile(r"(?:^|[;{}\n/\d])\s*e\b|/[gip0-9]*e[gip]*(?:$|[;}\n])|[/;]\s*w\s")
_DATABASES = {
    "psql": re.compile(r"\\(?:!|copy|o\b|w\b|g\s*\|)|COPY\b.*\bPROGRAM\b", re.IGNORECASE),
    "sqlite3": re.compile(r"\.(?:shell|system|import|output|once|load|read)\b|load_extension"),
    "mysql": re.compile(r"\\!|\bsystem\b"),
    "mariadb": re.compile(r"\\!|\bsystem\b"),
}
_SETTINGS = ("complete", "bind", "enable", "hash")
# Agents, which run what a prompt says, perhaps without any hooks.
_AGENTS = ("claude", "codex", "gemini", "cursor-agent", "aider", "opencode", "crush")
_COMPILERS = {
    "go": re.compile(r"--?(?:toolexec|exec)(?:=|$)"),
    **dict.fromkeys(("gcc", "g++", "cc", "c++"), re.compile(r"-wrapper")),
    "cargo": re.compile(r"(?:--config=)?.*(?:wrapper|runner|linker)\"?\s*="),
}
# The consoles of frameworks: how they get code, and its language.
_CONSOLES = (
    (re.compile(r"(?:^|/)rails (?:runner|r) (?!\S+\.rb(?: |$))(?P<code>.*)", re.DOTALL), "ruby"),
    (re.compile(r"manage\.py shell\S* (?:.* )?(?:-c|--command)[ =](?P<code>.*)", re.DOTALL), "python"),
    (re.compile(r"artisan tinker .*--execute[ =](?P<code>.*)", re.DOTALL), "php"),
    (re.compile(r"^mix run (?:.* )?(?:-e|--eval)[ =](?P<code>.*)", re.DOTALL), "elixir"),
)
_READS_CODE = re.compile(r"(?:^|/| )(?:rails (?:c|console)|artisan tinker|manage\.py shell\S*|iex|flask shell)(?: |$)")
_CHANGES_ROWS = re.compile(r"\.(?:delete|update|raw|execute|create|save)\w*\(")
_DEBUGGER_COMMAND = re.compile(
    r"(?:thread apply all )?(?:bt|backtrace)(?: \w+)*|r|run|q|quit|info [\w ]+|set (?:pagination|confirm) off"
)


def check(command: ShellCommand, workspace: str) -> Iterator[str]:
    if any(found(command) for found in _UNREADABLE):
        yield "unreadable"
    if INTERPRETERS.fullmatch(command.name or ""):
        yield from _of_foreign_code(command, workspace)


def _known(command: ShellCommand) -> list[str | None]:
    return [word[0] if len(word) == 1 else None for word in command.words[1:]]


def _is_dynamic(command: ShellCommand) -> bool:
    is_harmless = command.name in _HARMLESS or command.words[:2] in _HARMLESS_PAIRS
    return not is_harmless and any(not word for word in command.words[1:])


def _of_foreign_code(command: ShellCommand, workspace: str) -> Iterator[str]:
    codes = inline_code(command.words)
    found = [code_effects(command.name or "", code) for code in codes or ()]
    if codes is None or None in found:
        yield "unreadable"
    yield from (kind for one in found if one for kind in one.kinds(command.folder, workspace))


def _has_script(command: ShellCommand) -> bool:
    name = command.name or ""
    pattern = _AWK if name in ("awk", "gawk", "mawk", "nawk") else _SED if name == "sed" else None
    return pattern is not None and any(word is None or pattern.search(word) for word in _known(command))


def _runs_by_option(command: ShellCommand) -> bool:
    name, words = command.name or "", [word for word in _known(command) if word is not None]
    if name in _EDITORS and (
        name in ("ed", "ex")
        or any(
            one.startswith(("-c", "+", "-es", "--cmd", "-S", "--eval", "--batch", "--script", "-l", "-f"))
            for one in words
        )
        or (name == "man" and any(one.startswith(("-P", "-H", "--pager", "--html")) for one in words))
    ):
        return True
    if name in ("xargs", "parallel") and set(words) & SHELLS:
        return True
    if name in ("make", "gmake") and (_make_runs_by_option(words) or (command.text is not None and "-f" in words)):
        return True
    if name in _AGENTS and not {"--version", "--help"} & set(words):
        return True
    if name in _SETTINGS:
        return bool(words)
    if name in ("gdb", "lldb"):
        commands = [after for one, after in pairwise(words) if one in ("-ex", "--ex", "-eval-command", "-o", "-O")]
        plain = {"-batch", "--batch", "-b", "-q", "-p", "--args", "--", "-ex", "--ex", "-o", "-O", *commands}
        return not all(map(_DEBUGGER_COMMAND.fullmatch, commands)) or any(
            one[0] == "-" for one in words if one and one not in plain
        )
    if name in _COMPILERS and any(map(_COMPILERS[name].match, words)):
        return True
    if _gives_code_to_console(command, " ".join((name, *words))):
        return True
    if name in _DATABASES and any(map(_DATABASES[name].search, [*words, command.text or ""])):
        return True
    return any(map(_ESCAPES.search, words))


def _gives_code_to_console(command: ShellCommand, text: str) -> bool:
    """Whether the console of a framework gets code that does more than to compute and print."""
    if _READS_CODE.search(text) and (command.sources or command.text or command.reads):
        return True
    codes = ((found["code"], language) for pattern, language in _CONSOLES if (found := pattern.search(text)))
    return any(code_effects(language, code) is None or _CHANGES_ROWS.search(code) for code, language in codes)


def _make_runs_by_option(words: list[str]) -> bool:
    is_other = {"/dev/stdin", "-f-", "-", SUBSTITUTED} & set(words)
    return bool(is_other) or any(
        one.startswith(("SHELL=", ".SHELLFLAGS=", "--eval", "-E", "MAKEFLAGS=")) for one in words
    )


_UNREADABLE = (_is_dynamic, _has_script, _runs_by_option)
