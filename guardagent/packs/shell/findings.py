"""The dangers of a shell command. Each is a kind, which a rule of the pack denies."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator
from functools import lru_cache

from guardagent.packs.shell.checks import check_changes, check_code, check_deletions, check_packages
from guardagent.packs.shell.commands import (
    Files,
    all_commands,
    incoming,
    inner_commands,
    inner_scripts,
    output_kinds,
    plain_words,
    written_files,
)
from guardagent.packs.shell.machine_checks import check_network, check_rights, check_secrets, check_services, shows_vars
from guardagent.packs.shell.paths import changed, paths_of, read, workspace_of
from guardagent.packs.shell.script import ShellCommand, ShellScript, read_script

MAX_DEPTH = 8
# The checks of single commands: each yields kinds of danger.
_CHECKS: tuple[Callable[[ShellCommand, str], Iterator[str]], ...] = (
    check_secrets,
    check_deletions,
    check_changes,
    check_rights,
    check_network,
    check_packages,
    check_services,
    check_code,
)
# Variables that change the program that a name stands for, or where packages come from.
_LOADERS = re.compile(
    r"LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|DYLD_\w+|BASH_ENV|ENV|PROMPT_COMMAND|PATH|IFS|SHELLOPTS|PS4|GIT_SSH_COMMAND|"
    r"GIT_EXTERNAL_DIFF|GIT_PAGER|PAGER|EDITOR|VISUAL|PYTHONSTARTUP|PERL5OPT|RUBYOPT|NODE_OPTIONS|RUSTC_(?:WORKSPACE_)?WRAPPER|GIT_SSH|"
    r"(?:PIP|UV)_\w*(?:INDEX|FIND_LINKS|TRUSTED_HOST|INSECURE)\w*|(?i:npm_config_(?:registry|strict_ssl))|GOPROXY|GOINSECURE"
    r"|GONOSUM\w+|GIT_SSL_NO_VERIFY|NODE_TLS_REJECT_UNAUTHORIZED|PYTHONHTTPSVERIFY"
)
_ENVIRONMENT_NAME = re.compile(
    r"(?i)\^?\(?(?:(?!\w*(?:key|tok|sec|pas|cred|aws|auth))\w{3,}=?(?:\\?\|\^?(?!\)|$))?)+\)?=?"
)
_ONLY_NAMES = ((("cut",), ("-d=",), ("-f1",)), (("wc",), ("-l",)), (("awk",), ("-F=",), ("{print $1}",)))
_MAY_CONFIGURE = re.compile(r"env|var-file|(?:^|[\s;&|(])(?:source|\.)\s")
_SECRET_NAMES = re.compile(r"\$\{?!?(\w*(?:SECRET|TOKEN|PASSW|API_?KEY|ACCESS_KEY|CREDENTIAL|PRIVATE_KEY)\w*)")
_PRINTS_SECRETS = re.compile(
    r"\b(?:echo|printf|print|cat|curl|wget|tee|logger)\b[^;&|\n]*\$\{?!?\w*(?:SECRET|TOKEN|PASSW|API_?KEY|ACCESS_KEY|CREDENTIAL|PRIVATE_KEY)"
)


def shell_kinds(
    text: str, workspace: str = "", folder: str | None = "", earlier: Files | None = None
) -> frozenset[str]:
    """The kinds of danger in a script.

    Args:
        text: the script.
        workspace: the absolute folder where everything may be changed; empty for the working folder.
        folder: the working folder.
        earlier: the files that were written before.
    """
    return frozenset(_Findings(workspace).of_script(text, folder, 0, earlier=earlier))


def kinds_after(before: str, text: str, workspace: str = "", folder: str | None = "") -> frozenset[str]:
    """The kinds of danger that a script has only because of an earlier one, whose files and definitions it uses.

    The folder of the earlier one counts, too, if none is given.
    """
    script, files = _prepared(before)
    used = [function for function in script.functions if re.search(rf"(?<![\w-]){_name(function)}(?![\w-])", text)]
    moved = not folder and bool(script.folder) and (bool(workspace_of(workspace)) or script.folder in ("/", "~"))
    names = (*files.aliases, *files.remotes, *map(posixpath.basename, files.written))
    is_used = used or moved or files.unpacked or files.cloned or any(name in text for name in names)
    if not is_used and not any(map(_BUILD_FILES.search, files.written)) and not files.remotes:
        return frozenset()
    alone = shell_kinds(text, workspace, folder) | (shell_kinds("\n".join(used), workspace, folder) if used else set())
    return shell_kinds("\n".join([*used, text]), workspace, script.folder if moved else folder, files) - alone


# Files that a command runs without their name.
_BUILD_FILES = re.compile(r"(?:^|/)(?:(?:GNU)?[mM]akefile|package\.json|[jJ]ustfile|(?:\.git/hooks|\.husky)/[\w.-]+)$")


@lru_cache(1024)
def _prepared(before: str) -> tuple[ShellScript, Files]:
    script = read_script(before)
    return script, written_files(script.commands)


def _name(function: str) -> str:
    return re.escape(re.split(r"[\s({]", function.removeprefix("function ").strip())[0])


def argument_kinds(words: list[str], workspace: str = "", folder: str | None = "") -> frozenset[str]:
    """The kinds of danger in a command whose words are separate arguments, without a shell."""
    command = ShellCommand(tuple((word,) for word in words), folder=folder)
    return frozenset(_Findings(workspace).of_command(command, Files(), 0))


class _Findings:
    def __init__(self, workspace: str) -> None:
        self._workspace = workspace

    def of_script(
        self,
        text: str,
        folder: str | None,
        depth: int,
        sources: tuple[ShellCommand, ...] = (),
        earlier: Files | None = None,
    ) -> Iterator[str]:
        if depth > MAX_DEPTH:
            yield "unreadable"
            return
        script = read_script(text, folder, sources)
        yield from _of_whole(script, text)
        if _MAY_CONFIGURE.search(text) and shows_vars(filter(None, all_commands(text)), self._workspace):
            yield "secrets"
        files = written_files(script.commands, earlier)
        filtered = _filtered(script.commands)
        for command in script.commands:
            if id(command) not in filtered:
                yield from self.of_command(command, files, depth)

    def of_command(self, command: ShellCommand, files: Files, depth: int) -> Iterator[str]:
        if depth > MAX_DEPTH or any(_LOADERS.fullmatch(name) and name != "IFS" for name in command.variables):
            yield "unreadable"
        yield from self._of_redirections(command)
        if command.words and command.name is None:
            yield "unreadable"
            yield from output_kinds(command.sources)
        elif not command.words:
            yield from check_changes(command, self._workspace)
        elif depth <= MAX_DEPTH:
            yield from self._of_named(command, files, depth)

    def _of_redirections(self, command: ShellCommand) -> Iterator[str]:
        for path in paths_of(command.writes, command, self._workspace):
            yield from changed(path)
        for path in paths_of(command.reads, command, self._workspace):
            yield from read(path)

    def _of_named(self, command: ShellCommand, files: Files, depth: int) -> Iterator[str]:
        for check in _CHECKS:
            yield from check(command, self._workspace)
        for inner in inner_commands(command):
            yield from self.of_command(inner, files, depth + 1)
        alias = files.aliases.get(command.name or "")
        aliased = [] if alias is None else [(alias + " " + shlex.join(filter(None, plain_words(command))),)]
        for texts in (
            *incoming(command, files, self._workspace),
            *((text,) for text in inner_scripts(command)),
            *aliased,
        ):
            if isinstance(texts, str):
                yield texts
            elif texts[0] is not None:
                yield from self.of_script(texts[0], command.folder, depth + 1, command.sources, files)
            else:
                yield "unreadable"
                yield from output_kinds(command.sources)


def _own_names(script: ShellScript, text: str) -> bool:
    """Whether the script itself sets all variables that are named like secrets."""
    names = set(_SECRET_NAMES.findall(text))
    is_copied = any(re.search(rf"\b{name}=[\"']?\$\{{?{name}", text) for name in names)
    return bool(names) and names <= set(script.variables) and not is_copied


def _filtered(commands: list[ShellCommand]) -> set[int]:
    """The commands that print the environment for a search for a word: `env | grep -i proxy`."""
    searches = (
        command
        for command in commands
        if command.name in ("grep", "egrep", "rg") and command.sources and not command.writes
    )
    words = (
        (search, {word[0] if word else "" for word in search.words[1:]} - {"-i", "-E", "-n"}) for search in searches
    )
    sources = (
        word.sources[0] for word, patterns in words if all(map(_ENVIRONMENT_NAME.fullmatch, patterns)) and patterns
    )
    first = {id(command.sources[0]) for command in commands if command.sources and command.words in _ONLY_NAMES}
    return first | {
        id(source) for source in sources if source.words in ((("env",),), (("printenv",),)) and not source.writes
    }


def _of_whole(script: ShellScript, text: str) -> Iterator[str]:
    if not script.readable or any(map(_LOADERS.fullmatch, script.variables)):
        yield "unreadable"
    if script.recursive:
        yield "fork_bomb"
    if _PRINTS_SECRETS.search(text) and not _own_names(script, text):
        yield "secrets"
    if any(name.startswith("HIST") for name in script.variables):
        yield "history"
