"""The packages and images that a command takes from outside: of an ecosystem, by name, and with their version.

Where it is not certain which word is a name, the name is `?`, which is on no list. Files of requirements, lock files
and paths of this machine name nothing: a person has seen them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from rapidfuzz.distance import OSA

from guardagent.packs.shell.commands import after_options, all_commands, plain_words

UNKNOWN = "?"
_LOCAL = re.compile(r"[.~]|/|.*\.(?:whl|tar\.gz|tgz|zip|crate)(?:\[.*\])?$|[^<>=!~]*\*")
_ADDRESS = re.compile(r"[\w+]+://|git\+")
_REGISTRY = re.compile(r"(?:--(?:extra-)?index(?:-url)?|--default-index|--registry|--find-links|--source|-i)=")
_FILES = frozenset("-r --requirement --requirements -c --constraint --constraints".split())
_SWITCHES = frozenset(
    "-y --yes -q --quiet -U --upgrade -D --save-dev --save -S -E --save-exact --dev -g --global --rm -d --detach -i -t "
    "-it -ti --init --interactive --tty --read-only --no-cache --locked --frozen --no-install --pre -f --force "
    "--no-deps --force-reinstall --user --break-system-packages --system -P -n -v --verbose --no-save".split()
)
_VALUES = frozenset(
    "-p --publish --volume -e --env --name --network --env-file -w --workdir -u --entrypoint --mount --platform "
    "--memory --cpus --hostname --label --restart".split()
)
_SEPARATORS = str.maketrans("", "", "-._")
_Words = list[str]


def packages_in(text: str) -> list[str]:
    """Returns the packages that a command takes from outside, as `ECOSYSTEM:NAME` and their version."""
    packages: dict[str, None] = {}
    for command in all_commands(text):
        if command is not None and command.name is not None:
            name, words = command.name, plain_words(command)
            name, words = _of_module(name, words)
            packages.update(dict.fromkeys(_packages(re.sub(r"[\d.]+$", "", name), words)))
    return list(packages)


_PYTHON = re.compile(r"python[\d.]*|pypy[\d.]*|py")
_MODULE = re.compile(r"-[bBdEiIOPqsSuvx]*m(.*)")
_PYTHON_VALUES = ("-W", "-X", "--check-hash-based-pycs")


def _of_module(name: str, words: _Words) -> tuple[str, _Words]:
    """The module that Python runs, with its words; else the command itself."""
    rest = iter(enumerate(words, 1)) if _PYTHON.fullmatch(name) else iter(())
    for after, word in rest:
        if module := _MODULE.fullmatch(word):
            module_words = [module[1], *words[after:]] if module[1] else words[after:]
            return (module_words[0], module_words[1:]) if module_words else (name, words)
        if word in _PYTHON_VALUES:
            next(rest, None)
        elif not word.startswith("-") or word.startswith("-c"):
            break
    return name, words


def allowed(package: str, listed: Sequence[str]) -> bool:
    """Whether a list has a package.

    Args:
        package: as `packages_in` returns it.
        listed: names, with `ECOSYSTEM:` in front or for each of them, `*` at the end for all that begin so, and
            `NAME@VERSION` for one version alone.
    """
    ecosystem, _, name = package.partition(":")
    bare = _bare(name)
    for entry in listed:
        prefix, _, rest = entry.partition(":")
        of_this, wanted = (prefix == ecosystem, rest) if prefix in _ECOSYSTEMS else (True, entry)
        if of_this and UNKNOWN not in bare:
            exact = wanted in (name, bare)
            if exact or (wanted.endswith("*") and bare.startswith(wanted[:-1])):
                return True
    return False


_EXACT = re.compile(r"v?[0-9]+(?:[.+-][0-9A-Za-z]+)*")
_EXACT_OF_NPM = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:[.+-][0-9A-Za-z]+)*")  # `1.2` is a range there
_DIGEST = re.compile(r".*@sha256:[0-9a-f]{64}")


def is_pinned(package: str) -> bool:
    """Whether a package, as `packages_in` returns it, has an exact version; an image, whether it has a digest."""
    ecosystem, _, name = package.partition(":")
    if ecosystem == "image":
        return _DIGEST.fullmatch(name) is not None
    at = name.find("@", 1)
    exact = _EXACT_OF_NPM if ecosystem == "npm" else _EXACT
    return at > 0 and UNKNOWN not in name and exact.fullmatch(name[at + 1 :]) is not None


_SHORTEST = 5  # of the names that are compared: short ones are all alike


def resembles(package: str) -> str | None:
    """Returns the much-used package whose name differs from this one in one letter, or in their order; else None."""
    ecosystem, _, name = package.partition(":")
    bare, popular = _bare(name), _popular().get(ecosystem, frozenset())
    if bare in popular or UNKNOWN in bare or len(bare) < _SHORTEST:
        return None
    same = bare.translate(_SEPARATORS)
    near = (known for known in popular if abs(len(known) - len(bare)) <= 1 and len(known) >= _SHORTEST)
    return min((known for known in near if OSA.distance(known.translate(_SEPARATORS), same) <= 1), default=None)


@cache
def _popular() -> Mapping[str, frozenset[str]]:
    text = Path(__file__).with_name("popular_packages.txt").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {kind: frozenset(name for first, *names in lines if first == kind for name in names) for kind, *_ in lines}


def _bare(name: str) -> str:
    """The name without version and extras, in the form in which `pip` compares names."""
    at = name.find("@", 1)
    name = name if at < 0 else name[:at]
    return re.sub(r"\[.*", "", name).lower().replace("_", "-")


def _packages(program: str, words: _Words) -> Iterator[str]:
    for programs, subcommands, ecosystem, read in _READERS:
        for subcommand in subcommands if program in programs.split() else ():
            length = len(subcommand.split())
            for rest in after_options(words) if length else (words,):
                if rest[:length] == subcommand.split():
                    yield from (f"{ecosystem}:{name}" for name in read(rest[length:]))
                    return


def _each(words: _Words) -> Iterator[str]:
    """All words that are no option or path; the value of an option counts as a name."""
    for word in words:
        if not word or _REGISTRY.match(word):
            yield UNKNOWN
        elif not word.startswith("-") and (_ADDRESS.match(word) or not _LOCAL.match(word)):
            yield _versioned(word)


def _each_beside_files(words: _Words) -> Iterator[str]:
    """The same where options name files of requirements, on this machine."""
    files = {at + 1 for at, word in enumerate(words) if word in _FILES}
    return _each([word for at, word in enumerate(words) if at not in files or not word or _ADDRESS.match(word)])


def _each_of_npm(words: _Words) -> Iterator[str]:
    """The same; of `ALIAS@npm:NAME` the name that is installed."""
    return (name.partition("@npm:")[2] or name for name in _each(words))


def _each_of_deno(words: _Words) -> Iterator[str]:
    """Names with the prefix of a registry; addresses have a rule of their own."""
    return (
        word.removeprefix("npm:") if word.startswith("npm:") else UNKNOWN
        for word in words
        if re.match("npm:|jsr:", word)
    )


def _with(words: _Words) -> Iterator[str]:
    """The packages that `--with` adds to a run."""
    for at, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option == "--with":
            yield _versioned(value if equals else "".join(words[at + 1 : at + 2]))


def _first(words: _Words) -> Iterator[str]:
    """The first word that is no option, and what options name; unknown if an option may have a value."""
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in ("--from", "--with", "--package") or (option == "-p" and not equals):
            yield _versioned(value if equals else next(rest, "")) or UNKNOWN
            if option != "--with":
                return
        elif word in _VALUES:
            next(rest, None)
        elif word.startswith("-") and not equals and word not in _SWITCHES:
            yield UNKNOWN
            return
        elif not word.startswith("-"):
            if not _LOCAL.match(word):
                yield _versioned(word) or UNKNOWN
            return


def _image(words: _Words) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word in _VALUES or word in ("-v", "-l", "-m", "-h"):
            next(rest, None)
        elif word.startswith("-") and "=" not in word and word not in _SWITCHES:
            yield UNKNOWN
            return
        elif not word.startswith("-"):
            yield word or UNKNOWN
            return


def _versioned(word: str) -> str:
    """`NAME@VERSION` for `NAME==VERSION`; other limits are left out, since they name no version."""
    return re.sub(r"[<>=!~; ].*", "", re.sub(r"==", "@", word, count=1)) or UNKNOWN


_Read = Callable[[_Words], Iterator[str]]
_NPM_INSTALL = (
    "install i in ins inst insta instal isnt isnta isntal isntall add it install-test update up upgrade link ln"
)
_READERS: tuple[tuple[str, tuple[str, ...], str, _Read], ...] = (
    ("pip", ("install", "download", "wheel"), "pip", _each_beside_files),
    ("easy_install", ("",), "pip", _each),
    ("uv", ("pip install", "add", "tool install"), "pip", _each_beside_files),
    ("uv", ("tool run",), "pip", _first),
    ("uv", ("run",), "pip", _with),
    ("uvx", ("",), "pip", _first),
    ("pipx", ("install", "run", "inject"), "pip", _each),
    ("poetry pdm pipenv rye hatch", ("add", "install", "self add", "dep add"), "pip", _each_beside_files),
    ("conda mamba micromamba pixi", ("install", "add"), "conda", _each),
    ("npm pnpm yarn bun", tuple(_NPM_INSTALL.split()), "npm", _each_of_npm),
    ("npm pnpm yarn bun", ("create", "init"), "npm", _each),
    ("npm", ("exec", "x"), "npm", _first),
    ("bun", ("x",), "npm", _first),
    ("npx bunx pnpx", ("",), "npm", _first),
    ("pnpm yarn", ("dlx",), "npm", _first),
    ("deno", ("add", "install", "run"), "npm", _each_of_deno),
    ("cargo", ("install", "add"), "cargo", _each),
    ("gem", ("install",), "gem", _each),
    ("bundle", ("add",), "gem", _each),
    ("composer", ("require", "global require"), "composer", _each),
    ("go", ("install", "get"), "go", _each),
    ("go", ("run",), "go", lambda words: (name for name in _first(words) if "@" in name or name == UNKNOWN)),
    ("docker podman nerdctl", ("run", "pull", "create", "container run", "image pull"), "image", _image),
)
_ECOSYSTEMS: Mapping[str, None] = dict.fromkeys(ecosystem for _, _, ecosystem, _ in _READERS)
