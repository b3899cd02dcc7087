"""The dangers of one git command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from urllib.parse import urlsplit

from guardagent.packs.shell.script import MAX_VALUES, Word

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


def git_kinds(words: Sequence[Word], limits: GitLimits) -> Iterator[str]:
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
        yield (
            "code"
            if name.startswith("credential") or name in ("daemon", "shell", "instaweb", "send-email")
            else "unreadable"
        )
    if any(_RUNNING.match(option) for option in options):
        yield "code"
    if name in ("commit", "push", "merge", "am", "rebase", "pull", "cherry-pick") and (
        "--no-verify" in options or (name == "commit" and any(_has_flag(option, "n", "mFCctu") for option in options))
    ):
        yield "checks"
    operands = [word for word in words if not word.startswith("-")]
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
    elif name in ("push", "fetch", "pull", "clone", "ls-remote", "archive") or (
        name == "submodule" and "add" in operands
    ):
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
    if (
        (name == "reset" and {"--hard", "--merge", "--keep"} & options)
        or (name == "clean" and not any(option == "--dry-run" or _has_flag(option, "n", "e") for option in options))
        or (name == "checkout" and (forced or "--" in words or any(_is_path(operand) for operand in operands)))
        or (name == "restore" and not any(option in ("--staged", "-S") for option in options))
        or (name == "restore" and {"--worktree", "-W"} & options)
        or (
            name in ("switch", "checkout")
            and (
                forced
                or any(option == "--discard-changes" or _has_flag(option, "BC", "") for option in options)
                or {"-B", "-C"} & options
            )
        )
        or (
            name == "branch"
            and (
                forced
                or any(option == "--force" or _has_flag(option, "D") or _has_flag(option, "M") for option in options)
            )
        )
        or (
            name == "tag"
            and (forced or any(option == "--delete" or _has_flag(option, "d", "mFu") for option in options))
        )
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
    return (
        operand in (".", "*")
        or operand.startswith(("./", "../", ":/", ":("))
        or re.search(r"\.[a-z]{1,4}$", operand) is not None
    )


def _rewrite(name: str, _: list[str], options: set[str], operands: list[str], __: GitLimits) -> Iterator[str]:
    if name == "rebase" and any(
        option in ("--interactive", "--root") or _has_flag(option, "i", "xsX") for option in options
    ):
        yield "rewrite"
    if (name == "rebase" and any(option == "-x" or option.startswith("--exec") for option in options)) or (
        name,
        *operands[:1],
    ) in (
        ("bisect", "run"),
        ("submodule", "foreach"),
    ):
        yield "code"
    if (name == "difftool" and "-x" in options) or (
        name == "grep" and any(option.startswith("-O") for option in options)
    ):
        yield "code"
    if name in ("clone", "ls-remote", "fetch") and (
        {"-u", "-c", "--config"} & options or any(option.startswith("--config=") for option in options)
    ):
        yield "code" if name in ("clone", "ls-remote") else ""


def _config(name: str, _: list[str], options: set[str], operands: list[str], __: GitLimits) -> Iterator[str]:
    if name != "config":
        return
    reads = {
        "--get",
        "--get-all",
        "--get-regexp",
        "--list",
        "-l",
        "--show-origin",
        "--get-urlmatch",
    } & options or operands[:1] in (["get"], ["list"])
    keys = operands[1:] if operands[:1] in (["set"], ["unset"]) else operands
    if (
        {"--edit", "-e"} & options
        or operands[:1] == ["edit"]
        or {"--rename-section", "--remove-section"} & options
        or (
            not reads
            and (len(keys) > 1 or {"--unset", "--unset-all"} & options)
            and not any(map(_HARMLESS_KEY.match, keys[:1]))
        )
    ):
        yield "code"


_CHECKS = (_push, _address, _discard, _rewrite, _config)
