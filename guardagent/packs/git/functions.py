"""The functions of the pack's rules."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from guardagent.packs import named_values, plain_name, strings
from guardagent.packs.git.commands import GitLimits, git_kinds
from guardagent.packs.shell.commands import SHELLS, inner_commands, inner_scripts
from guardagent.packs.shell.script import ShellCommand, read_script, require_parser

require_parser()
MAX_DEPTH = 8
_COMMANDS = frozenset(
    "command cmd script commands bashcommand shellcommand commandline argv code input args arguments".split()
)
_SETTERS = re.compile(
    r"GIT_(?!AUTHOR_|COMMITTER_|TERMINAL_PROMPT$|TRACE|MERGE_AUTOEDIT$)|(?:EDITOR|VISUAL|PAGER|SSH_ASKPASS)$"
)
_OTHERS = frozenset("git-filter-repo bfg git-filter-branch".split())
_FLAGS = frozenset("force hard delete deleted prune mirror noverify forcewithlease discardchanges skiphooks".split())
_REFS = frozenset("branch branchname ref refspec refs refspecs targetbranch remotebranch destination".split())


def git_findings(arguments: dict[str, Any], protected: Sequence[str], hosts: Sequence[str]) -> list[str]:
    """The kinds of danger in the git commands of a call; without a command, it is unreadable.

    Args:
        arguments: the arguments of a tool that runs shell commands, or git commands without the word `git`;
            `git_branch` may be the branch that is checked out, empty outside of a repository.
        protected: the branches that need a person.
        hosts: the hosts of known repositories.
    """
    branch = arguments.get("git_branch")
    limits = GitLimits(tuple(protected), tuple(hosts), branch if isinstance(branch, str) else None)
    values = list(named_values(arguments, _COMMANDS)) or [
        argument for argument in arguments.values() if isinstance(argument, str)
    ]
    kinds: set[str] = set() if values else {"unreadable"}
    for value in values:
        texts = strings(value)
        if texts is None:
            kinds |= set() if value in (None, "", []) else {"unreadable"}
        elif isinstance(value, str) or any(" " in text for text in texts[:1]):
            kinds.update(kind for text in texts for kind in _of_script(text, limits, 0))
        else:
            kinds.update(_of_script(shlex.join(texts), limits, 0))
    return sorted(kinds - {""})


def git_tool_findings(
    arguments: dict[str, Any],
    pushes: bool,  # noqa: FBT001
    protected: Sequence[str],
    hosts: Sequence[str],
) -> list[str]:
    """The kinds of danger in the arguments of a tool for one git command, such as `git_push`.

    Args:
        arguments: the arguments, such as the branch.
        pushes: whether the tool changes another repository: the branch has to be known.
        protected: the branches that need a person.
        hosts: the hosts of known repositories.
    """
    limits = GitLimits(tuple(protected), tuple(hosts))
    kinds = {"discard" for key in _set_flags(arguments) if key}
    for text in _texts(arguments):
        if text.startswith(("-", "+")) or re.match(r"[\w+.-]+::|file:", text):
            kinds.add("discard" if text.startswith(("-", "+")) else "code")
    refs = [string for value in named_values(arguments, _REFS) for string in (strings(value) or ["\0"])]
    if pushes:
        words = [("git",), ("push",), ("origin",), *((ref,) for ref in refs or ["HEAD"])]
        kinds.update(git_kinds(words, limits))
    for url in named_values(arguments, {"url", "remoteurl", "repourl", "pushurl"}):
        words = [("git",), ("remote",), ("add",), ("x",), (str(url),)]
        kinds.update(git_kinds(words, limits))
    return sorted(kinds - {""})


def _set_flags(value: Any) -> Iterator[str]:
    """The names of dangerous flags that are set, such as `force`, and `mode: hard`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            name = plain_name(key)
            if (name in _FLAGS and inner not in (False, None, "", "false", 0)) or (
                name in ("mode", "type", "action", "operation")
                and str(inner).lstrip("-") in ("hard", "merge", "keep", "force", "drop", "clear", "delete")
            ):
                yield name
            yield from _set_flags(inner)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if plain_name(key) not in ("message", "body", "title", "description", "content", "files"):
                yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _of_script(text: str, limits: GitLimits, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        yield "unreadable"
        return
    if depth == 0 and re.match(
        r"(?:-[cC]\b|--?\w[\w-]*\s|(?:push|pull|fetch|commit|reset|clean|checkout|rebase|branch|stash|tag|remote|config)\b)",
        text,
    ):
        text = f"git {text}"
    script = read_script(text)
    if not script.readable:
        yield "unreadable"
    if any(_SETTERS.match(name) for name in script.variables):
        yield "code"
    for command in script.commands:
        yield from _of_command(command, limits, depth)


def _of_command(command: ShellCommand, limits: GitLimits, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH or (command.name is None and command.words):
        yield "unreadable"
        return
    if command.name == "git":
        if any(_SETTERS.match(name) for name in command.variables):
            yield "code"
        yield from git_kinds(command.words, limits)
    elif command.name in _OTHERS:
        yield "rewrite"
    elif command.name == "alias" or (command.name in SHELLS and command.sources):
        yield "unreadable"
    for inner in inner_commands(command):
        yield from _of_command(inner, limits, depth + 1)
    for script in inner_scripts(command):
        yield from ("unreadable",) if script is None else _of_script(script, limits, depth + 1)
