"""The functions of the pack's rules: the work of a shell command, and the files that a call edits."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from typing import Any

from guardagent.packs import strings
from guardagent.packs.shell.commands import inner_commands, inner_scripts
from guardagent.packs.shell.script import ShellCommand, bash_parser, read_script, require_parser, text_of

require_parser()
MAX_DEPTH = 6
_COMMANDS = "command cmd script commands bash_command shell_command command_line argv code input".split()
_TESTS = re.compile(
    r"(?:(?:npx|bunx|pnpm exec|uv run|poetry run|pipenv run|hatch run|bundle exec) )?"
    r"(?:(?:pytest|py\.test|tox|nox|rspec|jest|vitest|mocha|phpunit|ctest|ava|karma start|playwright test|cypress run)"
    r"|python[\d.]* -m (?:pytest|unittest|nose2?|tox)"
    r"|(?:npm|pnpm|yarn|bun|deno|go|cargo|mvn|mvnw|gradle|gradlew|dotnet|mix|swift|bazel|sbt|lein|stack|cabal|dune"
    r"|zig build|flutter|dart|rake|composer|hatch|make|just|task)"
    r"(?: run| -q| -s| --silent)* (?:test|tests|t|check|verify|unit|spec)(?:[:_-]\w+)*)(?: |$)"
)
_BEFORE_TESTS = re.compile(r"(?:(?:timeout (?:-\S+ )*\S+|time|env|command|nice|\w+=\S*) )+")
_FOLDER = re.compile(r"(?:\./|\S*/)(?=(?:python[\d.]*|pytest|tox|nox|jest|vitest|mvnw|gradlew)\b)")
_LISTS_ONLY = re.compile(r" (?:--collect-only|--co|--listTests|--list|--dry-run|--help|-h|--version)(?: |$)")
_EDITING = frozenset(
    "sed perl tee patch cp mv rm dd install truncate touch ln rsync unzip tar awk ed ex black isort prettier eslint "
    "ruff gofmt rustfmt clang-format".split()
)
_EDITING_GIT = frozenset(
    "apply am checkout switch restore reset merge rebase pull cherry-pick revert stash clean mv rm".split()
)
_INTERPRETERS = re.compile(r"(?:python|perl|ruby|node|php)[\d.]*")
_TEMPORARY = ("/tmp/", "/dev/", "/var/tmp/")  # noqa: S108 - paths that commands name


def work_of(arguments: dict[str, Any], test_commands: Sequence[str], harmless: Sequence[str]) -> list[str]:
    """The work of a shell command: `test`, `push`, `edit` and `skip`.

    It is a test only if the command fails whenever the tests do. A part that cannot be read counts as an edit.
    """
    kinds: set[str] = set()
    for name, value in arguments.items():
        text = " ".join(map(str, value)) if isinstance(value, list) else value
        if name.lower() in _COMMANDS and isinstance(text, str):
            kinds |= set(_of_script(text, tuple(test_commands), tuple(harmless), 0))
    return sorted(kinds)


def _of_script(text: str, tests: tuple[str, ...], harmless: tuple[str, ...], depth: int) -> Iterator[str]:
    script = read_script(text)
    if not script.readable or depth > MAX_DEPTH:
        yield "edit"
        return
    for command in script.commands:
        yield from _of_command(command, tests, harmless, depth)
    decisive = [decisive_command for decisive_command in _decisive_commands(text) if _is_test(decisive_command, tests)]
    if decisive:
        yield "test"


def _of_command(command: ShellCommand, tests: tuple[str, ...], harmless: tuple[str, ...], depth: int) -> Iterator[str]:
    words = [word[0] if len(word) == 1 else "" for word in command.words]
    targets = [value for word in command.writes for value in word or ("?",)]
    if any(not target.startswith(_TEMPORARY) and not target.endswith(harmless or ("\0",)) for target in targets):
        yield "edit"
    if words and command.name is not None:
        yield from _of_words(command.name, words[1:], harmless)
    elif words:
        yield "edit"
    for inner in inner_commands(command):
        yield from _of_command(inner, tests, harmless, depth + 1)
    for script in inner_scripts(command):
        yield from ("edit",) if script is None else _of_script(script, tests, harmless, depth + 1)


def _of_words(name: str, words: list[str], harmless: tuple[str, ...]) -> Iterator[str]:
    operands = [word for word in words if not word.startswith("-")]
    if name == "git":
        action = _git_action(words)
        if action == "push":
            yield "push"
        if action in _EDITING_GIT:
            yield "edit"
        if action in ("push", "commit", "merge") and ("--no-verify" in words or (action == "commit" and "-n" in words)):
            yield "skip"
    elif name == "gh" and operands[:2] in (["pr", "create"], ["pr", "merge"], ["release", "create"]):
        yield "push"
    elif name in _EDITING and _changes_files(name, words):
        files = [operand for operand in operands if "." in operand]
        if not (files and harmless and all(file.endswith(harmless) for file in files)):
            yield "edit"
    elif _INTERPRETERS.fullmatch(name) and any(word in ("-c", "-e", "-") for word in words):
        yield "edit"


def _changes_files(name: str, words: list[str]) -> bool:
    """Whether a command that can edit files does: some only print, unless an option says otherwise."""
    if name in ("black", "isort"):
        return not {"--check", "--diff", "--check-only"} & set(words)
    if name in ("sed", "perl", "awk", "tar", "ruff", "prettier", "eslint", "gofmt"):
        return any(re.match(r"-[a-zA-Z]*[iwx]|--(?:in-place|write|fix|extract)|format$", word) for word in words)
    return True


def _git_action(words: list[str]) -> str:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace") else 1
    return words[at] if at < len(words) else ""


def _is_test(text: str, tests: tuple[str, ...]) -> bool:
    plain = _FOLDER.sub("", _BEFORE_TESTS.sub("", text, count=1), count=1)
    if _LISTS_ONLY.search(plain) or re.match(r"make .*-n(?: |$)", plain):
        return False
    return bool(_TESTS.match(plain)) or any(plain == test or plain.startswith(f"{test} ") for test in tests)


def is_real_edit(arguments: dict[str, Any], harmless: Sequence[str]) -> bool:
    """Whether a call edits a file that tests may look at."""
    paths = list(_paths(arguments))
    return not (paths and harmless and all(path.endswith(tuple(harmless)) for path in paths))


def touches(arguments: dict[str, Any], patterns: Sequence[str]) -> bool:
    """Whether a call edits a file with one of these patterns."""
    return any(_fits(path, patterns) for path in _paths(arguments)) if patterns else False


def command_touches(arguments: dict[str, Any], patterns: Sequence[str]) -> bool:
    """Whether a shell command writes to a file with one of these patterns, or names it where it edits."""
    if not patterns or "edit" not in work_of(arguments, (), ()):
        return False
    text = " ".join(str(value) for name, value in arguments.items() if name.lower() in _COMMANDS)
    return any(_fits(part, patterns) for part in re.split(r"[\s'\"=;|&<>(){}]+", text) if part)


def _fits(path: str, patterns: Sequence[str]) -> bool:
    plain = path.replace("\\", "/").removeprefix("./")
    return any(fnmatch.fnmatch(plain, pattern) or fnmatch.fnmatch(plain, f"*/{pattern}") for pattern in patterns)


_PATH_NAMES = re.compile(
    r"(?:.*_)?(?:path|file|paths|files|notebook_path|source|destination|target)(?:_.*)?", re.IGNORECASE
)
_PATCHED = re.compile(
    r"^(?:\+\+\+ |\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: )(?:[ab]/)?([^\t\n\r]+)", re.MULTILINE
)


def _paths(arguments: dict[str, Any]) -> Iterator[str]:
    for name, value in arguments.items():
        for text in strings(value) or ():
            if _PATH_NAMES.fullmatch(name):
                yield text
            else:
                yield from _PATCHED.findall(text)


# --- the commands of a script that decide its exit status: it fails whenever one of them does

_STRICT = re.compile(r"\s*set -[a-z]*e")
_PIPEFAIL = re.compile(r"\s*set -(?:[a-z]*o |[a-z]+ -o )pipefail|set -euo pipefail")


def _decisive_commands(text: str) -> list[str]:
    """Returns the source of these commands, without redirections."""
    root = bash_parser().parse(text.encode("utf-8", "surrogatepass")).root_node
    if root.has_error:
        return []
    statements = [named_child for named_child in root.named_children if named_child.type != "comment"]
    is_strict = any(_STRICT.match(text_of(statement)) for statement in statements[:1])
    in_pipes = bool(_PIPEFAIL.search(text)) and text.lstrip().startswith("set ")
    background = [child for child in root.children if child.type == "&"]
    if background:
        return []
    chosen = statements if is_strict else statements[-1:]
    return [command for statement in chosen for command in _of_statement(statement, in_pipes=in_pipes)]


def _of_statement(node: Any, *, in_pipes: bool) -> Iterator[str]:
    """Yields the commands whose failure is that of a statement."""
    if node.type == "command":
        yield " ".join(text_of(node).split())
    for part in _decisive_parts(node, in_pipes=in_pipes):
        yield from _of_statement(part, in_pipes=in_pipes)


def _decisive_parts(node: Any, *, in_pipes: bool) -> list[Any]:
    parts = [named_child for named_child in node.named_children if named_child.type != "comment"]
    match node.type:
        case "list":
            return parts if not any(child.type == "||" for child in node.children) else []
        case "pipeline":
            return parts if in_pipes else parts[-1:]
        case "redirected_statement":
            return parts[:1]
        case "subshell":
            return parts[-1:]
    return []
