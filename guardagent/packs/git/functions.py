"""The functions of the pack's rules, which read git commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any
from urllib.parse import urlsplit

from guardagent.packs import named_values, plain_name, strings
from guardagent.packs.shell.commands import SHELLS, inner_commands, inner_scripts
from guardagent.packs.shell.findings import shell_kinds
from guardagent.packs.shell.paths import is_secret
from guardagent.packs.shell.script import MAX_VALUES, ShellCommand, Word, read_script, require_parser

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
        kinds.update(_git_kinds(words, limits))
    for url in named_values(arguments, {"url", "remoteurl", "repourl", "pushurl"}):
        words = [("git",), ("remote",), ("add",), ("x",), (str(url),)]
        kinds.update(_git_kinds(words, limits))
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
        yield from _git_kinds(command.words, limits)
    elif command.name in _OTHERS:
        yield "rewrite"
    elif command.name == "alias" or (command.name in SHELLS and command.sources):
        yield "unreadable"
    for inner in inner_commands(command):
        yield from _of_command(inner, limits, depth + 1)
    for script in inner_scripts(command):
        yield from ("unreadable",) if script is None else _of_script(script, limits, depth + 1)


# --- one command

_KNOWN = frozenset(
    (
        "add am annotate apply archive bisect blame branch bundle cat-file check-ignore checkout cherry "
        "cherry-pick clean clone commit config count-objects describe diff diff-tree difftool fetch "
        "for-each-ref format-patch fsck gc grep help init lfs log ls-files ls-remote ls-tree maintenance merge "
        "merge-base merge-tree mv name-rev notes prune pull push range-diff rebase reflog remote rerere reset "
        "restore rev-list rev-parse revert rm shortlog show show-ref sparse-checkout stash status submodule "
        "check-attr check-ref-format diff-files diff-index hash-object patch-id show-branch verify-pack verify-tag "
        "switch symbolic-ref tag update-index var verify-commit version whatchanged worktree "
    ).split()
)
_REWRITING = frozenset("filter-branch filter-repo replace fast-import".split())
_HARMLESS_KEY = re.compile(
    r"(?:user\.(?:name|email|signingkey)|color\..+|column\..+|advice\..+|init\.defaultbranch|core\.(?:quotepath"
    r"|autocrlf|filemode|eol|ignorecase"
    r"|longpaths|abbrev)|log\.\w+|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote|followtags)|fetch\.prune"
    r"|rebase\.auto(?:stash|squash)"
    r"|merge\.(?:conflictstyle|ff|renames)|diff\.(?:algorithm|renames|context|colormoved)|status\.\w+"
    r"|rerere\.enabled|gc\.auto|branch\.[\w./-]+"
    r"|commit\.(?:verbose|gpgsign)|tag\.sort|branch\.sort|safe\.directory|http\.postbuffer|help\.autocorrect"
    r"|protocol\.version|format\.pretty)$",
    re.IGNORECASE,
)
_RUNNING = re.compile(
    r"--(?:upload-pack|receive-pack|exec|extcmd|ext-diff|open-files-in-pager|template|config-env|exec-path"
    r"|output|textconv)(?:=|$)"
)
_DANGEROUS = tuple(
    "--force --force-with-lease --hard --keep --delete --mirror --prune --no-verify --discard-changes "
    "--interactive --root "
    "--upload-pack --receive-pack --exec --extcmd --ext-diff --open-files-in-pager --template --output "
    "--unsafe-paths".split()
)
_REMOTE_HELPER = re.compile(r"(?:[\w+.-]+::|file:|-)")
_VALUED = {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--super-prefix"}
_MESSAGE = ("-m", "--message", "-am", "-F", "--author", "--date", "-t")


@dataclass(frozen=True, slots=True)
class GitLimits:
    """The constants of the policy, and the branch that is checked out: None if unknown, empty if there is none."""

    protected: tuple[str, ...]
    hosts: tuple[str, ...]
    branch: str | None = None


def _git_kinds(words: Sequence[Word], limits: GitLimits) -> Iterator[str]:
    """The kinds of danger in a git command, whose first word is `git`."""
    plain = _plain(words)
    if not all(plain) or prod(map(len, plain)) > MAX_VALUES:
        yield "unreadable"
        plain = [word[:1] or ("\0",) for word in plain]
    for combination in product(*plain):
        yield from _of_words(list(combination), limits)


def _of_words(plain: list[str], limits: GitLimits) -> Iterator[str]:
    at = 0
    while at < len(plain) and plain[at].startswith("-"):
        value = plain[at + 1] if plain[at] in _VALUED and at + 1 < len(plain) else ""
        yield from _of_global_option(plain[at], value)
        at += 2 if plain[at] in _VALUED else 1
    if at < len(plain):
        yield from _of_subcommand(plain[at], plain[at + 1 :], limits)


def _plain(words: Sequence[Word]) -> list[Word]:
    """The values of the words after `git`; the text of a message may be unknown."""
    plain_words: list[Word] = []
    for word in words[1:]:
        is_message = bool(plain_words) and plain_words[-1][:1] in {(option,) for option in _MESSAGE}
        plain_words.append(("",) if is_message and not word else word)
    return plain_words


def _of_global_option(option: str, value: str) -> Iterator[str]:
    key, _, setting = (value if option == "-c" else option.removeprefix("-c")).partition("=")
    if option == "-c" or re.match(r"-c[A-Za-z]", option):
        if (not _HARMLESS_KEY.match(key) and setting not in ("cat", "true", ":")) or key.lower().startswith("alias."):
            yield "code"
    elif _RUNNING.match(option):
        yield "code"


def _of_subcommand(name: str, words: list[str], limits: GitLimits) -> Iterator[str]:
    options = set(_options(words))
    if name in _REWRITING:
        yield "rewrite"
    elif name not in _KNOWN:
        runs = name.startswith("credential") or name in ("daemon", "shell", "instaweb", "send-email")
        yield "code" if runs else "unreadable"
    if any(_RUNNING.match(option) for option in options if name != "rebase" or not option.startswith("--exec")):
        yield "code"
    if name in ("commit", "push", "merge", "am", "rebase", "pull", "cherry-pick") and (
        "--no-verify" in options or (name == "commit" and any(_has_flag(option, "n", "mFCctu") for option in options))
    ):
        yield "checks"
    operands = [word for word in words if not word.startswith("-")]
    if name == "add" and any(map(is_secret, operands)):
        yield "secrets"
    yield from (kind for check in _CHECKS for kind in check(name, words, options, operands, limits))


def _options(words: list[str]) -> Iterator[str]:
    """The options, and the dangerous ones that they can be short for: git accepts `--forc`."""
    for word in words[: words.index("--")] if "--" in words else words:
        if word.startswith("-"):
            yield word
        if re.match(r"--[a-z-]{2,}$", word):
            yield from (option for option in _DANGEROUS if option.startswith(word))


def _has_flag(option: str, flag: str, valued: str = "") -> bool:
    """Whether a group of short options has one, before an option with a value of its own."""
    if not re.match(r"-[A-Za-z]", option):
        return False
    return flag in re.split(f"[{valued}]", option[1:])[0] if valued else flag in option[1:]


def _push(name: str, _: list[str], options: set[str], operands: list[str], limits: GitLimits) -> Iterator[str]:
    if name != "push":
        return
    if any(option.startswith(("--force", "--mirror")) or _has_flag(option, "f", "o") for option in options):
        yield "force"
    if any(option in ("--delete", "--prune", "--mirror") or _has_flag(option, "d", "o") for option in options):
        yield "delete_remote"
    here = "HEAD" if limits.branch is None else limits.branch
    named = [here if ref in ("HEAD", "@") else ref for ref in operands[1:] if here or ref not in ("HEAD", "@")]
    refs = named or ([here] if here and "--tags" not in options else [])
    if {"--all", "--branches"} & options:
        yield "protected"
    for ref in refs:
        target = ref.lstrip("+").rpartition(":")[2].removeprefix("refs/").removeprefix("heads/")
        if ref.startswith("+"):
            yield "force"
        if re.match(r"\+?:.", ref):
            yield "delete_remote"
        if target in ("", "HEAD", "@", *limits.protected) or re.search(r"[*?@^~]", target):
            yield "protected"


def _address(name: str, _: list[str], __: set[str], operands: list[str], limits: GitLimits) -> Iterator[str]:
    """The other repositories of a command."""
    if name == "remote" and operands[:1] in (["add"], ["set-url"]):
        yield from (kind for operand in (operands[2:] or [""]) for kind in _of_address(operand, limits))
    elif name == "remote" and operands[:1] in (["rm"], ["remove"]):
        yield "discard"
    elif name in "push fetch pull clone ls-remote archive".split() or (name == "submodule" and "add" in operands):
        for address in operands[1:] if name == "submodule" else operands[:1]:
            if _REMOTE_HELPER.match(address):
                yield "code"
            if name in ("push", "submodule", "pull") and re.search(r"://|^[\w.-]+@[\w.-]+:|^/|^\.", address):
                yield from _of_address(address, limits)


def _of_address(text: str, limits: GitLimits) -> Iterator[str]:
    if _REMOTE_HELPER.match(text):
        yield "code"
        return
    short = re.match(r"(?:[\w.-]+@)?([\w.-]+):(?!//)", text)
    try:
        url = urlsplit(text)
        host = short[1] if short else url.hostname or ""
    except ValueError:
        host = ""
    if host.lower() not in [host.lower() for host in limits.hosts] or (not short and url.password):
        yield "remote"


def _discard(name: str, words: list[str], options: set[str], operands: list[str], _: GitLimits) -> Iterator[str]:
    first = operands[0] if operands else ""
    forced = any(option == "--force" or _has_flag(option, "f") for option in options)
    resets = any(_has_flag(option, "B") or _has_flag(option, "C") for option in options)  # of a branch that is there
    if (
        (name == "reset" and {"--hard", "--merge", "--keep"} & options)
        or (name == "clean" and not any(option == "--dry-run" or _has_flag(option, "n", "e") for option in options))
        or (name == "checkout" and (forced or "--" in words or any(_is_path(operand) for operand in operands)))
        or (name == "restore" and not any(option in ("--staged", "-S") for option in options))
        or (name == "restore" and {"--worktree", "-W"} & options)
        or (name in ("switch", "checkout") and (forced or "--discard-changes" in options or resets))
        or (name == "branch" and (forced or any(_has_flag(o, "D") or _has_flag(o, "M") for o in options)))
        or (name == "tag" and (forced or "--delete" in options or any(_has_flag(o, "d", "mFu") for o in options)))
        or (name == "stash" and first in ("drop", "clear"))
        or (name == "reflog" and first in ("expire", "delete"))
        or (name == "gc" and any(option.startswith("--prune") for option in options))
        or name == "prune"
        or (name == "apply" and "--unsafe-paths" in options)
        or (name == "worktree" and (first == "prune" or (first == "remove" and forced)))
        or (name == "rm" and (forced or "." in operands or "*" in operands) and "--cached" not in options)
        or (name == "submodule" and first == "deinit")
        or (name == "symbolic-ref" and len(operands) > 1)
        or (name == "fetch" and (forced or any(operand.startswith("+") for operand in operands)))
    ):
        yield "discard"


def _is_path(operand: str) -> bool:
    return re.search(r"^[.*]$|^\.{1,2}/|^:[/(]|\.[a-z]{1,4}$", operand) is not None


def _rewrite(name: str, words: list[str], options: set[str], operands: list[str], __: GitLimits) -> Iterator[str]:
    if name == "rebase" and ({"--interactive", "--root"} & options or any(_has_flag(o, "i", "xsX") for o in options)):
        yield "rewrite"
    if name == "rebase" or (name, *operands[:1]) in (("bisect", "run"), ("submodule", "foreach")):
        runs = inner_scripts(ShellCommand((("git",), (name,), *((word,) for word in words))))
        yield from ("code" for script in runs if script is None or shell_kinds(script))
    if (name == "difftool" and "-x" in options) or (name == "grep" and any(o.startswith("-O") for o in options)):
        yield "code"
    if name in ("clone", "ls-remote") and any(re.match(r"-[uc]$|--config(?:=|$)", option) for option in options):
        yield "code"


def _config(name: str, _: list[str], options: set[str], operands: list[str], __: GitLimits) -> Iterator[str]:
    if name != "config":
        return
    getters = "--get --get-all --get-regexp --list -l --show-origin --get-urlmatch".split()
    reads = options.intersection(getters) or operands[:1] in (["get"], ["list"])
    keys = operands[1:] if operands[:1] in (["set"], ["unset"]) else operands
    is_edited = {"--edit", "-e", "--rename-section", "--remove-section"} & options or operands[:1] == ["edit"]
    is_set = not reads and (len(keys) > 1 or {"--unset", "--unset-all"} & options)
    if is_edited or (is_set and not any(map(_HARMLESS_KEY.match, keys[:1]))):
        yield "code"


def _lfs(name: str, words: list[str], options: set[str], operands: list[str], limits: GitLimits) -> Iterator[str]:
    """The commands of Git LFS, which push, rewrite and discard as git does."""
    if name != "lfs" or not operands:
        return
    first, rest = operands[0], operands[1:]
    if first == "push":
        yield from ("protected",) if {"--all", "--stdin"} & options else ()
        yield from _address("push", words, options, rest, limits)
    elif first == "migrate":
        yield "rewrite" if rest[:1] != ["info"] else ""
    elif first in ("prune", "uninstall", "unlock", "dedup"):
        yield "discard" if first != "unlock" or any(o == "--force" or _has_flag(o, "f") for o in options) else ""
    elif first in ("clone", "fetch", "pull"):
        yield from _address(first, words, options, rest, limits)


_CHECKS = (_push, _address, _discard, _rewrite, _config, _lfs)
