"""Commands, scripts and code that a command runs.

Some are among its arguments: `sudo rm`, `env X=1 rm`, `xargs rm`, `find -exec rm`, `bash -c 'rm'`. Others reach it from
elsewhere: its input, the output of commands, and files that the script wrote, downloaded, unpacked or cloned before.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import dropwhile, pairwise

from guardagent.packs.shell.code_readers import CODE_READERS, DUMPS, has_danger, package_scripts, started_scripts
from guardagent.packs.shell.foreign_code import INTERPRETERS, code_effects
from guardagent.packs.shell.listings import listed
from guardagent.packs.shell.script import SUBSTITUTED, ShellCommand, Word, read_script

# --- operands and options

MAX_OPTIONS = 12  # before a subcommand
_EXAMPLE = re.compile(r"\.env(?:\.\w+)?\.(?:example|sample|template|dist|defaults?)$")


def operands(command: ShellCommand) -> tuple[Word, ...]:
    """The arguments that are not options; unknown ones too."""
    return tuple(word for word in command.words[1:] if not (word and word[0].startswith("-") and word[0] != "-"))


def options(command: ShellCommand) -> set[str]:
    return {value for word in command.words[1:] for value in word if value.startswith("-")}


def plain_words(command: ShellCommand) -> list[str]:
    """The arguments as strings; empty strings for unknown ones."""
    return [word[0] if word else "" for word in command.words[1:]]


def after_options(words: list[str]) -> list[list[str]]:
    """The words from each place where a subcommand can be: behind options, which may have a value of their own."""
    after_options = [words]
    for at, word in enumerate(words[:MAX_OPTIONS]):
        if not word.startswith(("-", "+")) and not (at and words[at - 1].startswith("-") and "=" not in words[at - 1]):
            break
        after_options.append(words[at + 1 :])
    return after_options


def copies_example(command: ShellCommand) -> bool:
    """Whether a command makes settings of a project from its example: `cp .env.example .env`."""
    names = [word[0] if len(word) == 1 else "" for word in operands(command)]
    return command.name == "cp" and len(names) == 2 and "/" not in names[1] and _EXAMPLE.search(names[0]) is not None


def value_after(command: ShellCommand, *names: str) -> tuple[Word, ...]:
    """The values of options: `-o FILE`, `--output FILE` and `--output=FILE`."""
    words: list[Word] = []
    for at, word in enumerate(command.words[1:], 1):
        if word and word[0] in names:
            words.extend(command.words[at + 1 : at + 2])
        elif word and word[0].startswith("--") and word[0].partition("=")[0] in names:
            words.append(tuple(value.partition("=")[2] for value in word))
    return tuple(words)


# --- commands and scripts among the arguments

SHELLS = frozenset("sh bash dash zsh ksh ash fish rbash mksh busybox".split())
# A wrapper -> its options that have a value of their own.
_WRAPPERS: dict[str, str] = {
    "sudo": "u g h p C r t T U D R user group host prompt chdir chroot",
    "doas": "u C",
    "pkexec": "user u",
    "env": "u C unset chdir",
    "time": "f o",
    "timeout": "k s kill-after signal",
    "nice": "n adjustment",
    "ionice": "c n p",
    "stdbuf": "i o e",
    "exec": "a",
    "xargs": "I L n P d E a s i max-args max-procs delimiter arg-file replace",
    "strace": "e o p s",
    "ltrace": "e o",
    "watch": "n interval d",
    "nsenter": "t",
    "parallel": "j jobs",
    "flock": "w",
    "proxychains": "f",
    "runuser": "u g",
    "systemd-run": "p u unit",
    "script": "T",
    "watchexec": "w e f i",
    "xvfb-run": "s n",
    **dict.fromkeys(("dotenv", "dotenv-cli"), "f e"),
    "wsl": "d u distribution user cd",
    "cgexec": "g",
    "numactl": "N m C p",
    **dict.fromkeys(("npx", "bunx", "uvx"), "p package c call w workspace from with python"),
    **dict.fromkeys(
        "entr rlwrap unbuffer firejail nohup setsid command builtin unshare chroot chronic caffeinate torsocks "
        "coproc busybox toybox shx gosu ! then do taskset chrt setarch linux32 linux64 prlimit valgrind faketime "
        "fakeroot eatmydata winpty setpriv dbus-run-session systemd-inhibit softlimit start tini dumb-init sem perf "
        "setuidgid envdir flatpak-spawn ld-linux-x86-64.so.2 ld-linux-aarch64.so.1".split(),
        "",
    ),
}
# Managers that run a program with one of their commands.
_RUNNERS = {
    **dict.fromkeys("uv poetry pipenv pdm hatch rye conda pipx pixi devbox op doppler heroku toolbox".split(), "run"),
    **dict.fromkeys("bundle direnv mise pnpm yarn npm lxc incus aws-vault chamber".split(), "exec dlx"),
    "distrobox": "enter",
    "adb": "shell",
    "bun": "x",
    "cmake": "-E",
}
_RUNNER_VALUES = "p w python with project directory env-file extra group n name C".split()
_RUNS = re.compile(
    r"--?(?:[\w-]+-)?(?:pre|preview|exec|command|cmd|run|shell|rsh|editor|pager|hook|(?<=\w-)filter)(?:=(?P<value>.+))?",
    re.DOTALL,
)
_MODULE_PROGRAMS = frozenset((part,) for part in "pytest mypy pip pipx poetry twine coverage alembic flask".split())
_SKIPPED = dict.fromkeys(  # operands before the command
    "timeout chroot flock gosu taskset chrt setarch faketime perf setuidgid envdir direnv lxc incus aws-vault chamber"
    " distrobox".split(),
    1,
)
_CONTAINERS = ("docker", "podman", "nerdctl", "kubectl", "oc")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def is_wrapper(name: str | None) -> bool:
    """Whether a program runs another one that its arguments name."""
    return name in _WRAPPERS or name in _RUNNERS or name in _CONTAINERS or name in SHELLS or name in _SCRIPTS


def inner_commands(command: ShellCommand) -> Iterator[ShellCommand]:
    """The commands that a command runs with its own arguments."""
    name = command.name
    if name in _WRAPPERS:
        words = _without_options(command.words[1:], _WRAPPERS[name].split(), _SKIPPED.get(name, 0))
        if words:
            assigned = (word[0] for word in command.words[1:] if word and _ASSIGNMENT.match(word[0]))
            variables = tuple(text.partition("=")[0] for text in assigned)
            if name in ("xargs", "parallel"):
                words = _with_inputs(command, words, printed_words(command))
            yield replace(command, words=_without_version(words), variables=(*command.variables, *variables))
    elif name == "find":
        yield from _of_find(command)
    elif name in ("docker", "podman") and command.words[1:2] == (("compose",),):
        yield from _of_compose(command)
    elif name in _RUNNERS and plain_words(command)[:1] and plain_words(command)[0] in _RUNNERS[name].split():
        words = _without_options(command.words[2:], _RUNNER_VALUES, _SKIPPED.get(name, 0))
        yield from [replace(command, words=words)] if words else []
    elif name in ("fd", "fdfind"):
        yield from _of_fd(command)
    elif re.fullmatch(r"python[\d.]*", name or "") and (words := _of_module(command.words[1:])):
        yield replace(command, words=words)
    elif name in _CONTAINERS:
        words = _in_container(command)
        yield from [replace(command, words=words)] if words else []


def _without_version(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words with the name of the program as that of `npx name@5`."""
    return (tuple(re.sub(r"(?<=[\w-])@[\w.^~-]+$", "", value) for value in words[0]), *words[1:])


def printed_words(command: ShellCommand) -> tuple[Word, ...]:
    """The arguments that `xargs` reads, if they are printed by `echo` or `printf`, or are listed files."""
    sources = command.sources
    stages = [[word[0] if len(word) == 1 else "" for word in source.words] for source in sources]
    if files := listed(stages):
        return (files,)
    if len(sources) != 1 or sources[0].name not in ("echo", "printf"):
        return ()
    return tuple((part,) for word in sources[0].words[1:] for value in word for part in value.split())


def _with_inputs(command: ShellCommand, words: tuple[Word, ...], inputs: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words of the command that `xargs` or `parallel` runs; with `-I{}`, in place of `{}`."""
    before = [word[0] for word in command.words[1 : len(command.words) - len(words)] if word]
    at = next((n for n, option in enumerate(before) if option.startswith("-I")), None)
    if command.name == "parallel" and (":::",) in words[:-1]:
        words, inputs = words[: words.index((":::",))], words[words.index((":::",)) + 1 :]
    is_parallel = command.name == "parallel" and any("{}" in value for word in words for value in word)
    if not inputs or (at is None and not is_parallel):
        return (*words, *inputs)
    sign = "{}" if at is None else before[at][2:] or "".join(before[at + 1 : at + 2]) or "{}"
    values = [value for word in inputs for value in word]
    return tuple(
        tuple(text.replace(sign, value) for text in word for value in values) if word and sign in word[0] else word
        for word in words
    )


def _without_options(words: tuple[Word, ...], valued: list[str], skipped: int) -> tuple[Word, ...]:
    at = 0
    while at < len(words):
        word = words[at][0] if words[at] else ""
        if word == "--":
            at += 1
            break
        if not word.startswith("-") and not _ASSIGNMENT.match(word):
            break
        at += 2 if word.lstrip("-") in valued and "=" not in word else 1
    rest = words[at + skipped :]
    return rest[1:] if rest[:1] == (("--",),) else rest


def _of_find(command: ShellCommand) -> Iterator[ShellCommand]:
    words = command.words
    folders = tuple(word for word in words[1:] if word and not word[0].startswith(("-", "(", "!")))[:1]
    names = [after for word, after in pairwise(words) if word == ("-name",) and len(after) == 1]
    if folders and len(names) == 1 and names[0] != ("*",):  # what is found has this name
        folders = (tuple(f"{folder.rstrip('/')}/{names[0][0]}" for folder in folders[0]),)
    for body in executed_words(words):
        filled = (folders[0] if folders and word == ("{}",) else word for word in body)
        yield replace(command, words=tuple(filled), sources=())


def executed_words(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """The words of each command of `find -exec ... ;`."""
    for at, word in enumerate(words):
        if word and word[0] in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n in range(at, len(words)) if words[n] and words[n][0] in (";", "+")), len(words))
            yield words[at + 1 : end]


def _of_module(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The program that `python -m NAME` runs, if it is one by this name, too."""
    rest = tuple(dropwhile(lambda word: bool(word) and re.fullmatch(r"-[bBdEiIOqsSuvx]+", word[0]), words))
    return rest[1:] if rest[:1] == (("-m",),) and rest[1:2] and rest[1][:1] in _MODULE_PROGRAMS else ()


def _of_compose(command: ShellCommand) -> Iterator[ShellCommand]:
    """The command that `docker compose exec` or `run` starts in a service."""
    rest = _without_options(command.words[2:], ["f", "p", "file", "env-file", "profile", "project-name"], 0)
    if rest[:1] in ((("exec",),), (("run",),)):
        words = _without_options(rest[1:], ["e", "u", "w", "v", "p", "env", "user", "workdir", "name", "entrypoint"], 1)
        yield from [replace(command, words=words)] if words else []


def _in_container(command: ShellCommand) -> tuple[Word, ...]:
    """The command that `docker exec NAME ...` or `kubectl exec POD -- ...` runs in a container."""
    words = plain_words(command)
    if command.name in ("kubectl", "oc"):
        at = words.index("--") if "--" in words else 0
        return command.words[at + 2 :] if ["exec"] in [rest[:1] for rest in after_options(words[:at])] else ()
    is_exec = words[:1] == ["exec"]
    return _without_options(command.words[2:], ["e", "u", "w", "env", "user", "workdir"], 1) if is_exec else ()


def _of_fd(command: ShellCommand) -> Iterator[ShellCommand]:
    words = command.words
    at = next((n for n, word in enumerate(words) if word and word[0] in ("-x", "-X", "--exec", "--exec-batch")), None)
    if at is not None:
        plain = [word[0] for word in words[1:at] if word and not word[0].startswith("-")]
        ends = [after[0] for word, after in pairwise(words[:at]) if word in (("-e",), ("--extension",)) and after]
        folders = [argument for argument in plain if argument not in ends and "/" in argument]
        folder = (folders or ["."])[-1].rstrip("/")
        patterns = tuple(f"{folder}/**/*.{end}" for end in ends) or (f"{folder}/**",)
        body = words[at + 1 :]
        is_named = any(re.search(r"\{[/.]{0,2}\}", value) for word in body for value in word)
        named = tuple(patterns if word and re.fullmatch(r"\{[/.]{0,2}\}", word[0]) else word for word in body)
        yield replace(command, words=named if is_named else (*body, patterns), sources=())


# Programs that run each of their words that has a space.
_TAKES_SCRIPTS = frozenset(
    "watch parallel script flock env tmux screen hyperfine nodemon concurrently sops vagrant heroku ansible salt pssh"
    " parallel-ssh pdsh clush adb".split()
)


def inner_scripts(command: ShellCommand) -> Iterator[str | None]:
    """The scripts that a command runs; None for one that is not known."""
    name, words = command.name or "", command.words[1:]
    if name not in SHELLS:
        yield from _of_options(words)
    if name in SHELLS:
        yield from _of_shell(words)
    elif name in ("su", "runuser"):
        yield from _of_other_user(words)
    elif name in _SCRIPTS:
        yield from _SCRIPTS[name](words)
    elif name in _TAKES_SCRIPTS:
        yield from (text for word in words if (text := _only(word)) is None or " " in text)


def _of_options(words: tuple[Word, ...]) -> Iterator[str]:
    """The values of options that are named like one that runs a command, such as `--preview '...'`."""
    for at, word in enumerate(words):
        match = _RUNS.fullmatch(word[0]) if word else None
        if match is not None:
            values = (match["value"],) if match["value"] else words[at + 1] if at + 1 < len(words) else ()
            yield from (value for value in values if " " in value)


def shell_words(words: tuple[Word, ...]) -> tuple[bool, tuple[Word, ...]]:
    """Whether a shell has `-c`, and its words after its options: a script or a file, and parameters."""
    has_script, at = False, 0
    while at < len(words) and words[at] and re.match(r"[-+].|-$", words[at][0]):
        word = words[at][0]
        has_script |= bool(re.match(r"-[a-zA-Z]*c|--command", word))
        at += 1
        if word in ("--", "-"):
            break
        if not word.startswith("--"):
            at += sum(map(word.count, "oO"))
        elif word in ("--rcfile", "--init-file"):
            at += 1
    return has_script, words[at:]


def _of_shell(words: tuple[Word, ...]) -> Iterator[str | None]:
    has_script, rest = shell_words(words)
    if has_script:
        yield _with_parameters(_only(rest[0]), rest[2:]) if rest else None
    elif any(not word for word in words):
        yield None
    if any(
        word[0] in ("--rcfile", "--init-file") and after != ("/dev/null",) for word, after in pairwise(words) if word
    ):
        yield None


def _of_other_user(words: tuple[Word, ...]) -> Iterator[str | None]:
    at = next((n for n, word in enumerate(words) if word and re.fullmatch(r"-[a-zA-Z]*c|--command", word[0])), None)
    if at is not None:
        yield _only(words[at + 1]) if at + 1 < len(words) else None


def _with_parameters(text: str | None, arguments: tuple[Word, ...]) -> str | None:
    """A script with its positional parameters, as a function that is called with them."""
    known = [_only(word) for word in arguments]
    if text is None or None in known or not re.search(r"\$\{?[1-9]", text):
        return text
    return f"_script() {{\n{text}\n}}\n_script {shlex.join(filter(None, known))}"


def _of_eval(words: tuple[Word, ...]) -> Iterator[str | None]:
    words = words[1:] if words[:1] == (("--",),) else words
    texts = [_only(word) for word in words]
    yield None if None in texts else " ".join(text for text in texts if text is not None)


def _of_ssh(words: tuple[Word, ...]) -> Iterator[str | None]:
    remote = _without_options(words, list("bcDEeFIiJLlmOopQRSWw"), 1)
    if remote:
        yield from _of_eval(remote)


def _of_trap(words: tuple[Word, ...]) -> Iterator[str | None]:
    words = words[1:] if words[:1] == (("--",),) else words
    if words and words[0] not in (("-",), ("-l",), ("-p",), ("",)):
        yield _only(words[0])


def _of_packages(words: tuple[Word, ...]) -> Iterator[str | None]:
    """`npm exec -c '...'` and `npx -c '...'`."""
    if words and words[0][:1] in (("exec",), ("x",), ("dlx",), ("-c",), ("--call",)):
        packages = [after for word, after in pairwise(words) if word in (("-c",), ("--call",))]
        yield from map(_only, packages)
    if words[:2] == (("pkg",), ("set",)):  # `npm pkg set scripts.NAME='...'`
        yield from (value.partition("=")[2] for word in words[2:] for value in word if value.startswith("scripts."))


def _of_tar(words: tuple[Word, ...]) -> Iterator[str | None]:
    yield from (_only(after) for word, after in pairwise(words) if word == ("-I",))


def _of_make_variables(words: tuple[Word, ...]) -> Iterator[str | None]:
    """Programs that variables of `make` name, with arguments: `make CC='sh -c ...'`."""
    yield from (value.partition("=")[2] for word in words for value in word if re.match(r"\w+[:?+]?=\S+\s", value))


def _of_callback(words: tuple[Word, ...]) -> Iterator[str | None]:
    """`mapfile -C '...'` and `compgen -C '...'`."""
    yield from (_only(after) for word, after in pairwise(words) if word and re.fullmatch(r"-\w*C", word[0]))


def _of_git(words: tuple[Word, ...]) -> Iterator[str | None]:
    """`git submodule foreach '...'`, `git bisect run ...`, `git rebase -x '...'` and `git config alias.x '!...'`."""
    for at, (word, after) in enumerate(pairwise(words)):
        if (word, after) in ((("submodule",), ("foreach",)), (("bisect",), ("run",))):
            rest = _without_options(words[at + 2 :], [], 0)
            known = [value for value in map(_only, rest) if value is not None]
            yield None if len(known) < len(rest) else shlex.join(known) if len(known) > 1 else "".join(known)
        if word in (("-x",), ("--exec",)) and ("rebase",) in words:
            yield _only(after)
        if ("rebase",) in words and after and after[0].startswith("--exec="):
            yield after[0].partition("=")[2]
        if word and word[0].startswith("alias.") and (not after or after[0].startswith("!")):
            yield after[0][1:] if after else None


def _of_split(words: tuple[Word, ...]) -> Iterator[str | None]:
    texts = (value.partition("=")[2] for word in words for value in word if value.startswith("--filter="))
    yield from (text.replace("$FILE", "FILE") for text in texts)


def _of_windows_shell(words: tuple[Word, ...]) -> Iterator[str | None]:
    """`cmd /c ...`, if its words are the same in both shells."""
    at = next((n + 1 for n, word in enumerate(words) if word and word[0].lower() in ("/c", "/k")), len(words))
    rest = words[at:]
    is_plain = all(len(word) == 1 and not re.search(r"[%^&|<>!]", word[0]) for word in rest)
    yield " ".join(word[0].replace("\\", "/") for word in rest) if is_plain and rest else None


def _of_alias(words: tuple[Word, ...]) -> Iterator[str | None]:
    for word in words:
        text = _only(word)
        yield None if text is None else text.partition("=")[2]


_SCRIPTS: dict[str, Callable[[tuple[Word, ...]], Iterator[str | None]]] = {
    "eval": _of_eval,
    "ssh": _of_ssh,
    "trap": _of_trap,
    "alias": _of_alias,
    "git": _of_git,
    "cmd": _of_windows_shell,
    **dict.fromkeys(("mapfile", "readarray", "compgen"), _of_callback),
    "split": _of_split,
    "tar": _of_tar,
    **dict.fromkeys(("make", "gmake"), _of_make_variables),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bunx"), _of_packages),
}


def _only(word: Word) -> str | None:
    return word[0] if len(word) == 1 else None


# --- all commands of a script, with those that other commands run

_MAX_DEPTH = 8


def all_commands(text: str, depth: int = 0) -> Iterator[ShellCommand | None]:
    """Yields the commands of a script and those inside of them; None for a part that is only known when it runs."""
    if depth > _MAX_DEPTH:
        yield None
        return
    script = read_script(text)
    if not script.readable:
        yield None
    for command in script.commands:
        yield from _with_inner(command, depth)


def _with_inner(command: ShellCommand, depth: int) -> Iterator[ShellCommand | None]:
    if depth > _MAX_DEPTH:
        yield None
        return
    yield command
    if command.folder is None or any(not word for word in (*command.words, *command.writes)):
        yield None
    for inner in inner_commands(command):
        yield from _with_inner(inner, depth + 1)
    for script in inner_scripts(command):
        yield from (None,) if script is None else all_commands(script, depth + 1)


# --- foreign files that a script unpacks or clones

_ENDINGS = re.compile(r"(?:\.git|\.(?:tar|tgz|txz|tbz2?|zip|7z|gz|xz|bz2|zst))+$|[-_.]?v?\d[\w.]*$")


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The places of foreign files.

    Attributes:
        folder: where they were unpacked.
        is_own: whether the folder holds nothing else.
        names: how a folder in it may be called, without versions.
    """

    folder: str
    is_own: bool
    names: frozenset[str]

    def has(self, path: str, *, is_script: bool) -> bool:
        """Whether a file, or a script beside the archive, may be one of these files."""
        inside = path if self.folder == "." else path.removeprefix(f"{self.folder}/")
        if inside == path and self.folder != ".":
            return False
        first, _, rest = inside.partition("/")
        return self.is_own or (_without_version_and_ending(first) in self.names if rest else is_script)


def place(command: ShellCommand, value: str) -> str:
    """The path of a file of a command."""
    return posixpath.normpath(posixpath.join(command.folder or "", value))


def unpacks(command: ShellCommand) -> bool:
    """Whether a command unpacks an archive."""
    words = plain_words(command)
    if command.name in ("tar", "bsdtar", "gtar"):
        return any(re.fullmatch(r"-?[a-zA-Z]*x[a-zA-Z]*|--extract|--get", word) for word in words)
    return command.name == "unzip" or (command.name in ("7z", "7za", "unar") and "l" not in words[:1])


def unpacked(command: ShellCommand, sources: tuple[ShellCommand, ...] = ()) -> Unpacked:
    """The files that a command unpacks from its arguments or from the output of others."""
    folders = [value for word in value_after(command, "-C", "--directory", "-d") for value in word]
    folder = place(command, folders[0] if folders else "")
    names = frozenset(name for source in (command, *sources) for name in _archive_names(source))
    return Unpacked(folder, is_own=folder != place(command, ""), names=names)


def cloned(command: ShellCommand) -> Iterator[Unpacked]:
    """The folder of a repository that a command fetches: `git clone URL [FOLDER]`."""
    if command.name == "git" and plain_words(command)[:1] == ["clone"]:
        names = [word[0] for word in operands(command)[1:] if len(word) == 1]
        at = next((n for n, name in enumerate(names) if re.search(r"://|^[\w.-]+@", name)), None)
        if at is not None:
            name = names[at + 1] if at + 1 < len(names) else names[at].rstrip("/").rpartition("/")[2]
            yield Unpacked(place(command, name.removesuffix(".git")), is_own=True, names=frozenset())


def _archive_names(command: ShellCommand) -> Iterator[str]:
    for word in plain_words(command):
        yield from filter(None, map(_without_version_and_ending, re.split(r"[/:?]", word)))


def _without_version_and_ending(name: str) -> str:
    return _ENDINGS.sub("", _ENDINGS.sub("", name))


# --- makefiles that a script writes

MAKES = ("make", "gmake")
_MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
_DEFINITION = re.compile(r"^(?:export +)?(\w+) *[:?]?:?= *(.*)$", re.MULTILINE)
_RECIPE = re.compile(r"^\t(.*)$|^[^\s#=:][^=:\n;]*:[^=;\n]*;(.*)$", re.MULTILINE)
_VARIABLE = re.compile(r"\$(?:\((\w+)\)|\{(\w+)\}|([@<^*+?%]))")
_PROGRAMS = {"CC": "cc", "CXX": "c++", "AR": "ar", "RM": "rm -f", "MAKE": "make", "CFLAGS": "", "LDFLAGS": ""}


def makefiles(command: ShellCommand) -> Iterator[str]:
    """The makefiles that `make` may read."""
    named = [value for word in value_after(command, "-f", "--file", "--makefile") for value in word]
    named += [word[2:] for word in plain_words(command) if word.startswith("-f") and word != "-f"]
    folders = [value for word in value_after(command, "-C", "--directory") for value in word]
    yield from (posixpath.join(folder, name) for folder in folders or (".",) for name in named or _MAKEFILES)


def recipes(text: str) -> str:
    """The recipes of a makefile as a script."""
    defined = {**_PROGRAMS, **dict(_DEFINITION.findall(text))}
    lines = "\n".join(first or second for first, second in _RECIPE.findall(re.sub(r"\\\n\s*", " ", text)))
    for _ in range(3):  # variables that are made of others
        lines = re.sub(r"(?<!\$)" + _VARIABLE.pattern, lambda match: _variable_value(match, defined), lines)
    return re.sub(r"^\s*[@+-]+\s*", "", lines, flags=re.MULTILINE).replace("$$", "$")


def _variable_value(match: re.Match[str], defined: dict[str, str]) -> str:
    name = match[1] or match[2]
    return "target" if name is None else defined.get(name, f"$${{{name}}}")


# --- code from elsewhere

_DOWNLOADERS = frozenset(
    "curl wget fetch aria2c http https lynx nc ncat netcat socat ftp scp rsync gh ssh dig nslookup telnet".split()
)
_DECODERS = frozenset(
    "base64 base32 xxd openssl gunzip zcat bzcat xzcat uudecode rev tr gpg hexdump od unxz bunzip2 sed "
    "awk printf cut".split()
)
_SOURCE = ("source", ".")
# Programs that put packages, patches or images in place, from files or their input.
_APPLIES = re.compile(
    r"(?:dpkg|rpm|apt|apt-get|dnf|yum|apk|pip|pip3|gem|npm|patch|git (?:apply|am)|(?:docker|podman|nerdctl) "
    r"(?:(?:buildx|image|compose) )?(?:build|load|import|-f -))(?: (?!.*--(?:check|\w*stat|summary|dry-run))|$)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that the script writes: the kinds of running it, and its content if that is known."""

    kinds: tuple[str, ...]
    text: str | None

    def followed_by(self, more: WrittenFile) -> WrittenFile:
        """The file with what is appended, or written in its place: each may be what runs."""
        texts = [file.text for file in (self, more) if file.text is not None]
        return WrittenFile((*self.kinds, *more.kinds), "\n".join(texts) if texts else None)


@dataclass(slots=True)
class Files:
    """The files that a script writes, by path, those that it unpacks from downloads, and repositories it clones.

    Also its aliases, and the remote repositories that it adds.
    """

    written: dict[str, WrittenFile] = field(default_factory=dict)
    unpacked: list[Unpacked] = field(default_factory=list)
    cloned: list[Unpacked] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    remotes: set[str] = field(default_factory=set)

    def find(self, path: str) -> WrittenFile | None:
        """The written file of a path; of a relative path and an absolute one, one can be the end of the other."""
        ends = (
            file
            for name, file in self.written.items()
            if name.startswith("/") != path.startswith("/") and (name.endswith("/" + path) or path.endswith("/" + name))
        )
        return self.written.get(path) or next(ends, None)


def _remember(command: ShellCommand, files: Files) -> None:
    words = plain_words(command)
    if command.name == "alias":
        files.aliases |= {name: text for name, sign, text in (word.partition("=") for word in words) if sign}
    if command.name == "git" and words[:2] in (["remote", "add"], ["remote", "set-url"]):
        names = [word for word in words[2:] if not word.startswith("-")]
        files.remotes |= set(names[:1]) if re.search(r"://|@.*:", " ".join(names[1:2])) else set()


def output_kinds(commands: Iterable[ShellCommand]) -> tuple[str, ...]:
    """The kinds of running the output of commands."""
    names = {name for command in _with_sources(commands) for name in _program_names(command)}
    kinds = (("remote_code", names & _DOWNLOADERS), ("obfuscated", names & _DECODERS))
    return tuple(kind for kind, tests in kinds if tests)


def _with_sources(commands: Iterable[ShellCommand]) -> Iterable[ShellCommand]:
    """Commands, and those whose output they use."""
    commands_by_id: dict[int, ShellCommand] = {}
    waiting = list(commands)
    while waiting:
        command = waiting.pop()
        if id(command) not in commands_by_id:
            commands_by_id[id(command)] = command
            waiting.extend(command.sources)
    return commands_by_id.values()


def _program_names(command: ShellCommand) -> Iterator[str]:
    yield command.name or ""
    for inner in inner_commands(command):
        yield from _program_names(inner)


def written_files(commands: Iterable[ShellCommand], earlier: Files | None = None) -> Files:
    """The files that a script downloads or writes, and those that were written before."""
    files = replace(earlier, written={**earlier.written}, unpacked=[*earlier.unpacked]) if earlier else Files()
    for command in (inner for outer in commands for inner in (outer, *inner_commands(outer))):
        _remember(command, files)
        text = printed((command,))
        file = WrittenFile(output_kinds((command, *command.sources)) if text is None else (), text)
        for path in _written(command):
            known = files.written.get(place(command, path))
            files.written[place(command, path)] = file if known is None else known.followed_by(file)
        files.written.update(_copied(command, files))
        files.cloned.extend(cloned(command))
        if unpacks(command):
            archives = [value for word in command.words[1:] for value in word]
            unpacked_files = [files.written.get(place(command, value)) for value in archives]
            kinds = (*output_kinds(command.sources), *(kind for file in unpacked_files if file for kind in file.kinds))
            if "remote_code" in kinds:
                files.unpacked.append(unpacked(command, command.sources))
    return files


def _copied(command: ShellCommand, files: Files) -> dict[str, WrittenFile]:
    """Written files under the names that `mv` and `cp` give them."""
    paths = [place(command, word[0]) for word in operands(command) if len(word) == 1]
    if command.name not in ("mv", "cp", "install", "ln") or len(paths) < 2:
        return {}
    known = [(path, files.written[path]) for path in paths[:-1] if path in files.written]
    names = ((paths[-1], f"{paths[-1]}/{posixpath.basename(path)}") for path, _ in known)
    return {name: file for both, (_, file) in zip(names, known, strict=True) for name in both}


def _written(command: ShellCommand) -> Iterator[str]:
    yield from (value for word in command.writes for value in word)
    if command.name in ("curl", "wget", "aria2c", "fetch"):
        yield from (word.rpartition("/")[2] for word in plain_words(command) if "/" in word)
        named = value_after(command, "-o", "-O", "--output", "--output-document")
        combined = [word for word in plain_words(command) if re.fullmatch(r"-[a-zA-Z]+[oO]", word)]
        yield from (value for word in (*named, *value_after(command, *combined)) for value in word)
    if command.name == "tee":
        yield from (value for word in operands(command) for value in word)
    if command.name == "dd":
        yield from (word[3:] for word in plain_words(command) if word.startswith("of="))


def incoming(command: ShellCommand, files: Files, workspace: str) -> Iterator[str | tuple[str]]:
    """The kinds of code that a command gets from elsewhere, and shell scripts among it, as tuples of one."""
    name = command.name or ""
    is_shell = name in SHELLS or name in _SOURCE
    yield from _of_build_files(command, files)
    if name == "parallel" and not ({":::", "::::", "-a"} & {*plain_words(command)} or list(inner_commands(command))):
        yield from _of_input(command, workspace, is_shell=True)
    if name in CODE_READERS:
        yield from _of_reader(command, files)
    if _APPLIES.match(" ".join((name, *plain_words(command)))):
        words = (*operands(command), *command.reads)
        written_files = (files.find(place(command, value)) for word in words for value in word)
        yield from (kind for file in written_files if file is not None for kind in file.kinds)
        yield from {"remote_code"}.intersection(output_kinds(command.sources))
    if not is_shell and not INTERPRETERS.fullmatch(name):
        yield from _of_file(command, command.words[0], files, workspace, is_shell=True)
        return
    has_script, words = shell_words(command.words[1:]) if name in SHELLS else (False, operands(command))
    if name in ("deno", "bun") and words[:1] == (("run",),):
        words = words[1:]
    for word in () if has_script else words[:1]:
        yield from _of_file(command, word, files, workspace, is_shell=is_shell)
    if any(word in ((), (SUBSTITUTED,)) for word in words):
        yield "unreadable"
        yield from output_kinds(command.sources)
    if not has_script and _reads_input(command, words, is_shell=is_shell):
        for word in (*command.reads, *_printed_files(command.sources)):
            yield from _of_file(command, word, files, workspace, is_shell=is_shell)
        yield from _of_input(command, workspace, is_shell=is_shell)


def _of_file(
    command: ShellCommand, word: tuple[str, ...], files: Files, workspace: str, *, is_shell: bool
) -> Iterator[str | tuple[str]]:
    is_program = word == command.words[0]
    for value in word:
        path = place(command, value)
        is_path = "/" in value or not is_program
        file = files.find(path) if is_path else files.written.get(path)
        if file is not None:
            yield from file.kinds
            if is_shell and file.text is not None and not _OTHER_LANGUAGE.match(file.text):
                yield (file.text,)
            elif file.text is not None:
                yield from _of_code(command, file.text, workspace)
        if is_path and any(
            unpacked_folder.has(path, is_script=is_shell)
            for unpacked_folder in (*files.unpacked, *(files.cloned if is_shell else ()))
        ):
            yield "remote_code"


_OTHER_LANGUAGE = re.compile(r"#!.*\b(?:python|node|perl|ruby|php|deno|bun|awk)")


def _of_code(command: ShellCommand, text: str, workspace: str) -> Iterator[str | tuple[str]]:
    effects = code_effects(command.name or "", text)
    if effects is not None:
        yield from effects.kinds(command.folder, workspace)
    else:
        yield from ((script,) for script in started_scripts(text))


_INPUTS = ((), ("-",), ("/dev/stdin",), (SUBSTITUTED,))


def _of_reader(command: ShellCommand, files: Files) -> Iterator[str]:
    """The kinds of the code of a program such as awk or psql, in its input and the files of its options."""
    name = command.name or ""
    reader = CODE_READERS[name]
    named = value_after(command, *reader.options)
    named += tuple(word for word in operands(command) if reader.decides and re.search(r"\.(?:js|sql)$", "".join(word)))
    is_code_input = any(word in _INPUTS for word in named) or (reader.takes_input and not named)
    texts = [text for text in (command.text, printed(command.sources)) if text is not None and is_code_input]
    inputs = (*command.reads, *_printed_files(command.sources)) if is_code_input else ()
    for word in (*named, *inputs):
        for file in (files.find(place(command, value)) for value in word):
            yield from file.kinds if file is not None else ("unreadable",) if reader.decides or name == "sed" else ()
            texts += [file.text] if file is not None and file.text is not None else []
    sources = {source.name for source in command.sources}
    is_local = "remote_code" not in output_kinds(command.sources)
    is_data = reader.takes_input and not named and sources <= DUMPS and is_local
    if is_data and reader.decides and not texts and any("dump" not in str(source) for source in sources):
        yield "unreadable"
    if is_code_input and not texts and not is_data and (command.sources or (SUBSTITUTED,) in (*named, *command.reads)):
        yield "unreadable"
        yield from output_kinds(command.sources)
    if any(has_danger(name, text) for text in texts):
        yield "unreadable"


# Programs -> files that they run though no argument names them.
_BUILD_FILES = {
    "npm pnpm yarn bun": "package.json",
    "pip pip3 uv": "setup.py pyproject.toml requirements.txt",
    "pytest py.test tox nox": "conftest.py tox.ini noxfile.py",
    "cargo": "Cargo.toml build.rs",
    "gradle gradlew mvn mvnw": "build.gradle build.gradle.kts settings.gradle pom.xml",
    "rake bundle rails": "Rakefile Gemfile",
    "docker docker-compose podman": "Dockerfile docker-compose.yml docker-compose.yaml compose.yml compose.yaml",
    "cmake": "CMakeLists.txt",
    "vagrant": "Vagrantfile",
}
_RUN_FILES = {name: paths.split() for names, paths in _BUILD_FILES.items() for name in names.split()}


def _of_build_files(command: ShellCommand, files: Files) -> Iterator[str | tuple[str]]:
    """The scripts of makefiles, packages and git hooks that were written before and that a command runs."""
    name = command.name or ""
    if paths := _RUN_FILES.get(name):
        downloads = (path for path, file in files.written.items() if "remote_code" in file.kinds)
        yield from ("remote_code" for path in downloads if posixpath.basename(path) in paths)
    if name in MAKES:
        yield from _of_makefiles(command, files)
    elif name in ("npm", "pnpm", "yarn", "bun"):
        texts = (file.text for path, file in files.written.items() if posixpath.basename(path) == "package.json")
        yield from ((script,) for text in texts if text is not None for script in package_scripts(text))
    elif name == "just":
        texts = (file.text for path, file in files.written.items() if posixpath.basename(path).lower() == "justfile")
        yield from (("\n".join(re.findall(r"^\s+@?(.*)$", text, re.MULTILINE)),) for text in texts if text)
    elif name == "git":
        hooks = (file for path, file in files.written.items() if re.search(r"(?:^|/)(?:\.git/hooks|\.husky)/", path))
        yield from ((file.text,) for file in hooks if file.text is not None)
        words = [word[0] for word in operands(command) if word]
        if words[:1] == ["push"] and files.remotes & set(words[1:2] or ["origin"]):
            yield "upload"


def _of_makefiles(command: ShellCommand, files: Files) -> Iterator[str | tuple[str]]:
    for path in (place(command, makefile) for makefile in makefiles(command)):
        file = files.find(path)
        if file is not None:
            yield from file.kinds
            if file.text is not None:
                yield (recipes(file.text),)
        if any(unpacked.has(path, is_script=False) for unpacked in files.unpacked):
            yield "remote_code"


def _reads_input(command: ShellCommand, words: tuple[Word, ...], *, is_shell: bool) -> bool:
    code = r"-[a-zA-Z]*[ceEr]|--eval|--execute|-m"
    if not is_shell and any(re.fullmatch(code, word) for word in plain_words(command)):
        return False
    return not words or words[0] in (("-",), ("/dev/stdin",)) or "-s" in plain_words(command)


def _of_input(command: ShellCommand, workspace: str, *, is_shell: bool) -> Iterator[str | tuple[str]]:
    text = command.text if command.text is not None else printed(command.sources)
    if is_shell and text is not None:
        yield (text,)
    elif text is not None and (effects := code_effects(command.name or "", text)) is not None:
        yield from effects.kinds(command.folder, workspace)
    elif text is not None or command.sources:
        yield from output_kinds(command.sources)
        if not _is_file(command.sources):
            yield "unreadable"


def printed(sources: tuple[ShellCommand, ...]) -> str | None:
    """The output of a command that only prints literals."""
    if len(sources) != 1 or sources[0].name not in ("echo", "printf", "cat", "tee", "dd"):
        return None
    command = sources[0]
    if command.name in ("tee", "dd"):
        return command.text if command.text is not None else printed(command.sources)
    words = [word for word in command.words[1:] if word not in (("-e",), ("-n",), ("-en",))]
    if command.name == "printf" or len(words) + 1 < len(command.words):
        words = [tuple(value.replace("\\n", "\n").replace("\\t", "\t") for value in word) for word in words]
    if command.name == "cat":
        return command.text if not words else None
    is_replaced = command.name == "printf" or len(words) + 1 < len(command.words)
    if any(len(word) != 1 or (is_replaced and re.search(r"[\\%]", word[0])) for word in words):
        return None
    return " ".join(word[0] for word in words)


def _printed_files(sources: tuple[ShellCommand, ...]) -> tuple[Word, ...]:
    """The files whose content is the input of a command: `cat FILE | ...`."""
    return operands(sources[0]) if len(sources) == 1 and sources[0].name == "cat" else ()


def _is_file(sources: tuple[ShellCommand, ...]) -> bool:
    if len(sources) != 1 or sources[0].name != "cat" or sources[0].sources:
        return False
    words = (*sources[0].words[1:], *sources[0].reads)
    return bool(words) and not any(word in _INPUTS or len(word) > 1 for word in words)
