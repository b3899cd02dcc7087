"""Commands that run other commands: `sudo rm`, `env X=1 rm`, `xargs rm`, `find -exec rm`, `bash -c 'rm'`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import dropwhile, pairwise

from guardagent.packs.shell.arguments import plain_words
from guardagent.packs.shell.listings import listed
from guardagent.packs.shell.script import ShellCommand
from guardagent.packs.shell.words import Word

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
    "entr": "",
    "watchexec": "w e f i",
    "xvfb-run": "s n",
    "rlwrap": "",
    "unbuffer": "",
    "firejail": "",
    "dotenv": "f e",
    **dict.fromkeys(("npx", "bunx", "uvx"), "p package c call w workspace from with python"),
    **dict.fromkeys(
        "nohup setsid command builtin unshare chroot chronic caffeinate torsocks coproc busybox toybox shx gosu ! then"
        " do".split(),
        "",
    ),
}
# Managers that run a program with one of their commands.
_RUNNERS = {
    **dict.fromkeys("uv poetry pipenv pdm hatch rye conda pipx".split(), "run"),
    **dict.fromkeys("bundle direnv mise pnpm yarn npm".split(), "exec dlx"),
    "bun": "x",
    "cmake": "-E",
}
_RUNNER_VALUES = "p w python with project directory env-file extra group n name C".split()
_RUNS = re.compile(
    r"--?(?:[\w-]+-)?(?:pre|preview|exec|command|cmd|run|shell|rsh|editor|pager|hook)(?:=(?P<value>.+))?", re.DOTALL
)
_MODULE_PROGRAMS = frozenset((one,) for one in "pytest mypy pip pipx poetry twine coverage alembic flask".split())
_SKIPPED = {"timeout": 1, "chroot": 1, "flock": 1, "gosu": 1}  # operands before the command
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def inner_commands(command: ShellCommand) -> Iterator[ShellCommand]:
    """The commands that a command runs with its own arguments."""
    name = command.name
    if name in _WRAPPERS:
        words = _after_options(command.words[1:], _WRAPPERS[name].split(), _SKIPPED.get(name, 0))
        if words:
            variables = tuple(
                word[0].partition("=")[0] for word in command.words[1:] if word and _ASSIGNMENT.match(word[0])
            )
            if name in ("xargs", "parallel") and (printed := printed_words(command)):
                words = _with_inputs(command, words, printed)
            yield replace(command, words=_without_version(words), variables=(*command.variables, *variables))
    elif name == "find":
        yield from _of_find(command)
    elif name in ("docker", "podman") and command.words[1:2] == (("compose",),):
        yield from _of_compose(command)
    elif name in _RUNNERS and plain_words(command)[:1] and plain_words(command)[0] in _RUNNERS[name].split():
        words = _after_options(command.words[2:], _RUNNER_VALUES, 1 if name == "direnv" else 0)
        yield from [replace(command, words=words)] if words else []
    elif name in ("fd", "fdfind"):
        yield from _of_fd(command)
    elif re.fullmatch(r"python[\d.]*", name or "") and (words := _of_module(command.words[1:])):
        yield replace(command, words=words)
    elif name in ("docker", "podman") and command.words[1:2] == (("exec",),):
        words = _after_options(command.words[2:], ["e", "u", "w", "env", "user", "workdir"], 1)
        yield from [replace(command, words=words)] if words else []


def _without_version(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words with the name of the program as that of `npx name@5`."""
    return (tuple(re.sub(r"(?<=[\w-])@[\w.^~-]+$", "", value) for value in words[0]), *words[1:])


def printed_words(command: ShellCommand) -> tuple[Word, ...]:
    """The arguments that `xargs` reads, if they are printed by `echo` or `printf`, or are listed files."""
    sources = command.sources
    stages = [[word[0] if len(word) == 1 else "" for word in one.words] for one in sources]
    if files := listed(stages):
        return (files,)
    if len(sources) != 1 or sources[0].name not in ("echo", "printf"):
        return ()
    return tuple((part,) for word in sources[0].words[1:] for value in word for part in value.split())


def _with_inputs(command: ShellCommand, words: tuple[Word, ...], inputs: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words of the command that `xargs` or `parallel` runs; with `-I{}`, in place of `{}`."""
    options = [word[0] for word in command.words[1 : len(command.words) - len(words)] if word]
    at = next((n for n, one in enumerate(options) if one.startswith("-I")), None)
    is_parallel = command.name == "parallel" and any("{}" in value for word in words for value in word)
    if at is None and not is_parallel:
        return (*words, *inputs)
    sign = "{}" if at is None else options[at][2:] or "".join(options[at + 1 : at + 2]) or "{}"
    values = [value for word in inputs for value in word]
    return tuple(
        tuple(one.replace(sign, value) for one in word for value in values) if word and sign in word[0] else word
        for word in words
    )


def _after_options(words: tuple[Word, ...], valued: list[str], skipped: int) -> tuple[Word, ...]:
    at = 0
    while at < len(words):
        word = words[at][0] if words[at] else ""
        if word == "--":
            at += 1
            break
        if not word.startswith("-") and not _ASSIGNMENT.match(word):
            break
        at += 2 if word.lstrip("-") in valued and "=" not in word else 1
    return words[at + skipped :]


def _of_find(command: ShellCommand) -> Iterator[ShellCommand]:
    words = command.words
    folders = tuple(word for word in words[1:] if word and not word[0].startswith(("-", "(", "!")))[:1]
    names = [after for one, after in pairwise(words) if one == ("-name",) and len(after) == 1]
    if folders and len(names) == 1 and names[0] != ("*",):  # what is found has this name
        folders = (tuple(f"{folder.rstrip('/')}/{names[0][0]}" for folder in folders[0]),)
    for at, word in enumerate(words):
        if word and word[0] in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n in range(at, len(words)) if words[n] and words[n][0] in (";", "+")), len(words))
            body = (folders[0] if folders and one == ("{}",) else one for one in words[at + 1 : end])
            yield replace(command, words=tuple(body), sources=())


def _of_module(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The program that `python -m NAME` runs, if it is one by this name, too."""
    rest = tuple(dropwhile(lambda word: bool(word) and re.fullmatch(r"-[bBdEiIOqsSuvx]+", word[0]), words))
    return rest[1:] if rest[:1] == (("-m",),) and rest[1:2] and rest[1][:1] in _MODULE_PROGRAMS else ()


def _of_compose(command: ShellCommand) -> Iterator[ShellCommand]:
    """The command that `docker compose exec` or `run` starts in a service."""
    rest = _after_options(command.words[2:], ["f", "p", "file", "env-file", "profile", "project-name"], 0)
    if rest[:1] in ((("exec",),), (("run",),)):
        words = _after_options(rest[1:], ["e", "u", "w", "v", "p", "env", "user", "workdir", "name", "entrypoint"], 1)
        yield from [replace(command, words=words)] if words else []


def _of_fd(command: ShellCommand) -> Iterator[ShellCommand]:
    words = command.words
    at = next((n for n, word in enumerate(words) if word and word[0] in ("-x", "-X", "--exec", "--exec-batch")), None)
    if at is not None:
        plain = [word[0] for word in words[1:at] if word and not word[0].startswith("-")]
        ends = [after[0] for one, after in pairwise(words[:at]) if one in (("-e",), ("--extension",)) and after]
        folder = next((one for one in reversed(plain) if one not in ends and "/" in one), ".").rstrip("/")
        found = tuple(f"{folder}/**/*.{end}" for end in ends) or (f"{folder}/**",)
        body = words[at + 1 :]
        is_named = any(re.search(r"\{[/.]{0,2}\}", value) for word in body for value in word)
        named = tuple(found if word and re.fullmatch(r"\{[/.]{0,2}\}", word[0]) else word for word in body)
        yield replace(command, words=named if is_named else (*body, found), sources=())


def inner_scripts(command: ShellCommand) -> Iterator[str | None]:
    """The scripts that a command runs; None for one that is not known."""
    name, words = command.name or "", command.words[1:]
    if name not in SHELLS:
        yield from _of_options(words)
    if name in SHELLS or name in ("su", "runuser"):
        yield from _of_shell(words)
    elif name in _SCRIPTS:
        yield from _SCRIPTS[name](words)
    elif name in (
        "watch",
        "parallel",
        "script",
        "flock",
        "env",
        "tmux",
        "screen",
        "hyperfine",
        "nodemon",
        "concurrently",
    ):
        yield from (text for word in words if (text := _only(word)) is None or " " in text)


def _of_options(words: tuple[Word, ...]) -> Iterator[str]:
    """The values of options that are named like one that runs a command, such as `--preview '...'`."""
    for at, word in enumerate(words):
        found = _RUNS.fullmatch(word[0]) if word else None
        if found is not None:
            values = (found["value"],) if found["value"] else words[at + 1] if at + 1 < len(words) else ()
            yield from (value for value in values if " " in value)


def _of_shell(words: tuple[Word, ...]) -> Iterator[str | None]:
    at = next((n for n, word in enumerate(words) if word and re.fullmatch(r"-[a-zA-Z]*c|--command", word[0])), None)
    if at is not None:
        yield _with_parameters(_only(words[at + 1]), words[at + 3 :]) if at + 1 < len(words) else None
    elif any(not word for word in words):
        yield None


def _with_parameters(text: str | None, arguments: tuple[Word, ...]) -> str | None:
    """A script with its positional parameters, as a function that is called with them."""
    known = [_only(word) for word in arguments]
    if text is None or None in known or not re.search(r"\$\{?[1-9]", text):
        return text
    return f"_script() {{\n{text}\n}}\n_script {shlex.join(filter(None, known))}"


def _of_eval(words: tuple[Word, ...]) -> Iterator[str | None]:
    texts = [_only(word) for word in words]
    yield None if None in texts else " ".join(one for one in texts if one is not None)


def _of_ssh(words: tuple[Word, ...]) -> Iterator[str | None]:
    operands = _after_options(words, list("bcDEeFIiJLlmOopQRSWw"), 1)
    if operands:
        yield from _of_eval(operands)


def _of_trap(words: tuple[Word, ...]) -> Iterator[str | None]:
    if words and words[0] not in (("-",), ("-l",), ("-p",), ("",)):
        yield _only(words[0])


def _of_packages(words: tuple[Word, ...]) -> Iterator[str | None]:
    """`npm exec -c '...'` and `npx -c '...'`."""
    if words[:1] in ((("exec",),), (("x",),), (("dlx",),)) or any(
        word and word[0] in ("-c", "--call") for word in words[:1]
    ):
        found = [after for one, after in pairwise(words) if one in (("-c",), ("--call",))]
        yield from map(_only, found)
    if words[:2] == (("pkg",), ("set",)):  # `npm pkg set scripts.NAME='...'`
        yield from (value.partition("=")[2] for word in words[2:] for value in word if value.startswith("scripts."))


def _of_tar(words: tuple[Word, ...]) -> Iterator[str | None]:
    yield from (_only(after) for one, after in pairwise(words) if one == ("-I",))


def _of_make(words: tuple[Word, ...]) -> Iterator[str | None]:
    """Programs that variables of `make` name, with arguments: `make CC='sh -c ...'`."""
    yield from (value.partition("=")[2] for word in words for value in word if re.match(r"\w+[:?+]?=\S+\s", value))


def _of_alias(words: tuple[Word, ...]) -> Iterator[str | None]:
    for word in words:
        text = _only(word)
        yield None if text is None else text.partition("=")[2]


_SCRIPTS: dict[str, Callable[[tuple[Word, ...]], Iterator[str | None]]] = {
    "eval": _of_eval,
    "ssh": _of_ssh,
    "trap": _of_trap,
    "alias": _of_alias,
    "tar": _of_tar,
    **dict.fromkeys(("make", "gmake"), _of_make),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bunx"), _of_packages),
}


def _only(word: Word) -> str | None:
    return word[0] if len(word) == 1 else None
