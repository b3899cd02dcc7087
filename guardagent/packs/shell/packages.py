"""The packages, images and MCP servers that a command takes from outside: of an ecosystem, by name, with their version.

Where it is not certain which word is a name, the name is `?`, which is on no list. Files of requirements, lock files
and paths of this machine name nothing: a person has seen them.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from rapidfuzz.distance import OSA

from guardagent._support.json_values import loads
from guardagent.packs import named_values, plain_name, with_json
from guardagent.packs.shell.checks import REMOTE_CONTEXT, changed_words, edits_in_place
from guardagent.packs.shell.commands import after_options, all_commands, plain_words, printed

UNKNOWN = "?"
UNREAD = "unread"  # a part of a file that no format takes for the whole
MCP = "mcp"  # the ecosystem of MCP servers: their addresses, and programs that are no packages
_LOCAL = re.compile(r"[.~]|/|.*\.(?:whl|tar\.gz|tgz|zip|crate)(?:\[.*\])?$|[^<>=!~]*\*")
_ADDRESS = re.compile(r"[\w+]+://|git\+")
_REGISTRY = re.compile(r"(?:--(?:extra-)?index(?:-url)?|--default-index|--registry|--find-links|--source|-i)=|-.*://")
_FILES = frozenset("-r --requirement --requirements -c --constraint --constraints".split())
_IMAGE_SWITCHES = "-q --quiet --rm -d --detach -i -t -it -ti --init --interactive --tty --read-only -P".split()
_IMAGE_VALUES = frozenset(
    "-p --publish -v --volume -e --env --name --network --env-file -w --workdir -u --user --entrypoint --mount "
    "--platform -m --memory --cpus -h --hostname -l --label --restart".split()
)
_REWRITES = frozenset("tee dd sponge patch curl wget aria2c".split())  # beside editors, of files as their operands
_SEPARATORS = str.maketrans("", "", "-._")
_Words = list[str]
_Names = Collection[str]
_Read = Callable[[_Words], Iterator[str]]


def packages_in(text: str) -> list[str]:
    """Returns the packages that a command takes from outside, as `ECOSYSTEM:NAME` and their version."""
    packages: dict[str, None] = {}
    for command in all_commands(text):
        if command is not None and command.name is not None:
            name, words = _of_module(command.name, plain_words(command))
            packages.update(dict.fromkeys([*_packages(re.sub(r"[\d.]+$", "", name), words), *_servers(words)]))
            written = printed((command,))
            if written is None or (command.name == "echo" and "\\" in written):  # which some shells replace
                written = text  # what it writes is somewhere in it
            for path in command.writes:
                packages.update(dict.fromkeys(packages_of_file(path[0] if path else "", written)))
            key = _KEY.search(text)
            for path in changed_words(command) if edits_in_place(command) or command.name in _REWRITES else ():
                part = (None if edits_in_place(command) else printed((command,))) or (key[0] if key else UNREAD)
                packages.update(dict.fromkeys(packages_of_file(path[0] if path else "", part)))
    return list(packages)


def _servers(words: _Words) -> Iterator[str]:
    """The MCP servers that the command line of an agent's host adds: `claude mcp add`, `code --add-mcp`."""
    words = next((rest for rest in after_options(words) if rest[:1] == ["mcp"]), words)
    settings = next((word for word in words if word.lstrip().startswith("{")), None)
    if "--add-mcp" in words or words[:2] == ["mcp", "add-json"]:
        yield from servers_in(settings or "mcp")
    elif words[:2] == ["mcp", "add"]:
        _, *rest = _after_settings([word for word in words[2:] if word != "--url"]) or [""]
        rest = _after_settings(rest)
        yield from server_of(rest[1:] if rest[:1] == ["--"] else rest)


_OF_ADD = frozenset("-e --env -s --scope -t --transport -H --header --timeout --bearer-token-env-var".split())


def _after_settings(words: _Words) -> _Words:
    while words and words[0] in _OF_ADD:
        words = words[2:]
    return [] if words and words[0].startswith("-") and words[0] != "--" else words


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
    names = (name, bare, _TAG.sub("", bare)) if ecosystem == "image" else (name, bare)
    for entry in listed:
        prefix, _, rest = entry.partition(":")
        of_this, wanted = (prefix == ecosystem, rest) if prefix in _ECOSYSTEMS else (True, entry)
        is_there = wanted in names or (wanted.endswith("*") and bare.startswith(wanted[:-1]))
        if of_this and is_there and UNKNOWN not in bare:
            return True
    return False


_EXACT = re.compile(r"v?[0-9]+(?:[.+-][0-9A-Za-z]+)*")
_EXACT_OF_NPM = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:[.+-][0-9A-Za-z]+)*")  # `1.2` is a range there
_TAG = re.compile(r":[\w.-]+$")
_DIGEST = re.compile(r".*@sha256:[0-9a-f]{64}")


def is_pinned(package: str) -> bool:
    """Whether a package, as `packages_in` returns it, has an exact version; an image, whether it has a digest."""
    ecosystem, _, name = package.partition(":")
    if ecosystem == MCP:
        return UNKNOWN not in name  # an address has no version
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
    """The name without version and extras, in the form in which `pip` compares names; an address as it is."""
    if _ADDRESS.match(name):
        return name
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


def _first(packages: str, values: str, switches: str, words: _Words) -> Iterator[str]:
    """The first word that is no option, or what options name; unknown if an option may have a value."""
    rest, is_named = iter(words), False
    for word in rest:
        option, equals, value = word.partition("=")
        if option in packages.split():
            yield _versioned(value if equals else next(rest, ""))
            is_named = is_named or option not in ("--with", "-w")
        elif word in values.split():
            next(rest, None)
        elif _REGISTRY.match(word) or (word.startswith("-") and not equals and word not in switches.split()):
            yield UNKNOWN
            return
        elif not word.startswith("-"):
            if not is_named and (_ADDRESS.match(word) or not _LOCAL.match(word)):
                yield _versioned(word)
            return


def _images(words: _Words) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word in _IMAGE_VALUES:
            next(rest, None)
        elif word.startswith("-") and "=" not in word and word not in _IMAGE_SWITCHES:
            yield UNKNOWN
            return
        elif not word.startswith("-"):
            yield image_name(word).partition(":")[2]


def image_name(word: str) -> str:
    """The image of a reference, as `packages_in` returns it; unknown if a variable is a part of it."""
    name = re.sub(r"^(?:(?:index\.)?docker\.io/)?(?:library/)?", "", word)
    return f"image:{UNKNOWN if not name or '$' in name else name}"


def _versioned(word: str) -> str:
    """`NAME@VERSION` for `NAME==VERSION`; other limits are left out, since they name no version."""
    return re.sub(r"[<>=!~; ].*", "", re.sub(r"==", "@", word, count=1)) or UNKNOWN


_OF_UV = partial(_first, "--from -w --with", "-p --python", "-q --quiet -v --verbose -U --upgrade -n --isolated --")
_OF_NPX = partial(
    _first, "-p --package", "", "-y --yes -q --quiet -s --silent -f --force --no-install --verbose --bun --"
)
_OF_GO = partial(_first, "", "-p", "-v -x -race")
_NPM_INSTALL = (
    "install i in ins inst insta instal isnt isnta isntal isntall add it install-test update up upgrade link ln"
)
_READERS: tuple[tuple[str, tuple[str, ...], str, _Read], ...] = (
    ("pip", ("install", "download", "wheel"), "pip", _each_beside_files),
    ("easy_install", ("",), "pip", _each),
    ("uv", ("pip install", "add", "tool install"), "pip", _each_beside_files),
    ("uv", ("tool run",), "pip", _OF_UV),
    ("uv", ("run",), "pip", _with),
    ("uvx", ("",), "pip", _OF_UV),
    ("pipx", ("install", "run", "inject"), "pip", _each),
    ("poetry pdm pipenv rye hatch", ("add", "install", "self add", "dep add"), "pip", _each_beside_files),
    ("conda mamba micromamba pixi", ("install", "add"), "conda", _each),
    ("npm pnpm yarn bun", tuple(_NPM_INSTALL.split()), "npm", _each_of_npm),
    ("npm pnpm yarn bun", ("create", "init"), "npm", _each),
    ("npm", ("exec", "x"), "npm", _OF_NPX),
    ("bun", ("x",), "npm", _OF_NPX),
    ("npx bunx pnpx", ("",), "npm", _OF_NPX),
    ("pnpm yarn", ("dlx",), "npm", _OF_NPX),
    ("deno", ("add", "install", "run"), "npm", _each_of_deno),
    ("cargo", ("install", "add"), "cargo", _each),
    ("gem", ("install",), "gem", _each),
    ("bundle", ("add",), "gem", _each),
    ("composer", ("require", "global require"), "composer", _each),
    ("go", ("install", "get"), "go", _each),
    ("go", ("run",), "go", lambda words: (name for name in _OF_GO(words) if "@" in name or name == UNKNOWN)),
    (
        "docker podman nerdctl",
        ("run", "create", "container run", "container create"),
        "image",
        lambda words: islice(_images(words), 1),
    ),
    ("docker podman nerdctl", ("pull", "image pull"), "image", _images),
)
_ECOSYSTEMS = frozenset((MCP, *(ecosystem for _, _, ecosystem, _ in _READERS)))


# --- files that name them: Dockerfiles, files of compose, and settings of MCP clients

_SETTINGS = re.compile(r"(?i).*\.(?:jsonc?|toml|code-workspace)")
_OF_MCP = re.compile(r"(?i)(?:.*[/\\])?[^/\\]*(?:mcp|claude)[^/\\]*\.jsonc?")  # all of them, not single keys
_OF_HOST = re.compile(
    r"(?i)(.*[/\\])?(opencode\.jsonc?|(\.(gemini|qwen|codex)|\.?zed)[/\\](.*[/\\])?(settings\.jsonc?|config\.toml))"
)
_KEY = re.compile(
    r'mcpServers|mcp_servers|context_servers|"mcp"\s*:\s*\{|\\(?:u00|U0{6}|x)[4-7]'
)  # or an escaped letter
_KEYS = frozenset(("mcpservers", "contextservers", "amp.mcpservers", "mcp"))  # the last of opencode and VS Code
_ADDRESSES = ("url", "httpUrl", "serverUrl", "uri")
_PARTS = _KEYS.union(map(plain_name, ("command", "path", "args", *_ADDRESSES)))
_RUNNERS = frozenset("npx bunx pnpx uvx npm pnpm yarn bun docker podman nerdctl".split())
_DOCKERFILE = re.compile(r"(?i)(.*[/\\])?((docker|container)file([._-][^/\\]*)?|[^/\\]*\.(docker|container)file)")
_COMPOSE = re.compile(r"(?i)(.*[/\\])?[^/\\]*compose[^/\\]*\.ya?ml")
_INSTRUCTION = re.compile(
    r"[ \t]*(?i:ONBUILD[ \t]+)?(?i:HEALTHCHECK[ \t]+(?:--\S+[ \t]+)*)?"
    r"(?:(?i:(FROM|COPY|ADD|RUN|CMD|ENTRYPOINT))(?:[ \t]+(.*)|\s*$)|[A-Z]+[ \t])"
)
_OF_PARSER = re.compile(r"(?im)^[ \t]*(?:#|//)[ \t]*(?:syntax[ \t]*=[ \t]*(\S+)|escape[ \t]*=[ \t]*`)")
_COMMENTS = re.compile(r"(?m)^[ \t]*(?:#.*)?(?:\r?\n|\Z)")  # also empty lines: a builder drops both inside of a line
_CONTINUED = re.compile(r"(?<!\\)\\[ \t]*\r?\n")
_OPTIONS = re.compile(r"""(?:--[\w-]+(?:=(?:"[^"]*"|'[^']*'|[^\s"'])*)?\s+)*""")
_FROM = re.compile(r"""(?i)\bfrom=["']?([^\s,"']+)""")


def packages_of_file(path: str, text: str) -> Iterator[str]:
    """Yields what a file takes from outside, as `packages_in`; `mcp:?` for settings of MCP that cannot be read."""
    if _DOCKERFILE.fullmatch(path):
        yield from _of_dockerfile(text)
    elif _COMPOSE.fullmatch(path):
        yield from _of_compose(text)
    elif _OF_MCP.fullmatch(path):
        yield from servers_in(text)
    elif _SETTINGS.fullmatch(path) and ((is_host := _OF_HOST.fullmatch(path)) or _KEY.search(text)):
        is_toml = path.lower().endswith("toml")
        if is_host and not is_toml and not text.lstrip().startswith("{"):
            text = f"{{{text.strip().strip(',')}}}"  # a part of an object
        yield from servers_in(text, is_toml=is_toml, of=_KEYS, parts=_PARTS if is_host else ())


def servers_in(text: str, *, is_toml: bool = False, of: _Names = (), parts: _Names = ()) -> Iterator[str]:
    """Yields the MCP servers of settings, or of values with the names `of`.

    Yields `mcp:?` for text that cannot be read, and for values outside of these with the names `parts`.
    """
    try:
        settings = tomllib.loads(text) if is_toml else loads(text)  # which refuses a name that is there twice
    except (ValueError, RecursionError):
        settings = None
    servers = [*named_values(settings, of)] if of else settings
    yield from _of_settings(servers)
    if not isinstance(settings, dict) or (parts and [*named_values(settings, parts)] != servers):
        yield f"{MCP}:{UNKNOWN}"


def _of_settings(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for inner in value:
            yield from _of_settings(inner)
    if not isinstance(value, dict):
        return
    command, args = value.get("command"), value.get("args", [])
    if isinstance(command, dict):  # of Zed
        args, command = command.get("args", []), command.get("path")
    words = [*(command if isinstance(command, list) else [command]), *(args if isinstance(args, list) else [None])]
    if command is not None:
        yield from server_of(words) if all(isinstance(word, str) for word in words) else (f"{MCP}:{UNKNOWN}",)
    yield from (f"{MCP}:{value[name]}" for name in _ADDRESSES if isinstance(value.get(name), str))
    for name, inner in value.items():
        if name not in ("command", "args"):
            yield from _of_settings(inner)


def server_of(words: list[str]) -> Iterator[str]:
    """Yields what the command of a server takes from outside, and its program unless it only runs that."""
    if words and re.fullmatch(r"(?i)cmd(\.exe)?", words[0]):
        has_operator = any(re.search("[&|<>^%]", word) for word in words)
        words = [] if has_operator else [word for word in words[1:] if word.lower() != "/c"]
    program = words[0] if words else ""
    yield from packages_in(shlex.join(words))
    if program not in _RUNNERS or not any(_packages(program, words[1:])):
        yield f"{MCP}:{program or UNKNOWN}"


def _of_compose(text: str) -> Iterator[str]:
    import yaml  # only here: most calls write no such file

    try:
        events = [*yaml.parse(text)]
        values = [getattr(event, "value", "") for event in events if isinstance(event, yaml.NodeEvent)]
    except yaml.YAMLError:
        events, values = [], [""]
    for key, at in _keys(events):
        yield from _of_value(key, events[at : at + _MOST_EVENTS])
    for key, value in pairwise(values if len(values) > 1 else ["image", ""] * len(values)):
        if key == "image" or (key == "dockerfile_inline" and not value):
            yield image_name(value)
        elif key == "dockerfile_inline":
            yield from _of_dockerfile(value)


_COMMANDS, _CONTEXTS = ("command", "entrypoint", "test"), ("build", "context", "additional_contexts", "include")
_MOST_EVENTS = 200  # of a value


def _keys(events: Sequence[Any]) -> Iterator[tuple[str, int]]:
    """Yields the keys of mappings that name a command or a context, with the places of their values."""
    import yaml  # as above

    is_key: list[bool | None] = [None]  # of each open collection: whether its next node is a key; None in a list
    for at, event in enumerate(events):
        if isinstance(event, yaml.CollectionEndEvent):
            is_key.pop()
        elif isinstance(event, yaml.NodeEvent):
            if is_key[-1] and (key := getattr(event, "value", "")) in (*_COMMANDS, *_CONTEXTS):
                yield key, at + 1
            is_key[-1] = None if is_key[-1] is None else not is_key[-1]
            if isinstance(event, yaml.CollectionStartEvent):
                is_key.append(True if isinstance(event, yaml.MappingStartEvent) else None)


def _of_value(key: str, events: Sequence[Any]) -> Iterator[str]:
    """Yields what the value of a key takes from outside: packages of a command, or the address of what is built."""
    kinds, words, depth = [], list[str](), 0
    for event in events:
        kinds.append(type(event).__name__.removesuffix("Event"))
        words += ["$"] if kinds[-1] == "Alias" else [event.value] if kinds[-1] == "Scalar" else []
        depth += kinds[-1].endswith("Start") - kinds[-1].endswith("End")
        if not depth:
            break
    if key in _COMMANDS and kinds[0] == "MappingStart":
        pass  # a service of this name: its keys are read by themselves
    elif depth or "Alias" in kinds:
        yield image_name("")
    elif key in _COMMANDS:
        test = words.pop(0) if words[:1] in (["CMD"], ["CMD-SHELL"]) else ""  # of a health check
        yield from packages_in(" ".join(words) if kinds == ["Scalar"] or test == "CMD-SHELL" else shlex.join(words))
    elif key != "build" or kinds == ["Scalar"]:  # an object has a key of its own for the context
        addresses = [re.sub(r"^[\w.-]+=", "", word) for word in words]
        remote = (word for word in addresses if "$" in word or "docker-image:" in word or REMOTE_CONTEXT.search(word))
        yield from (image_name(word.removeprefix("docker-image://")) for word in remote)


def _of_dockerfile(text: str) -> Iterator[str]:
    yield from map(image_name, _OF_PARSER.findall(text))
    started: dict[str, Any] = {}
    stages = {"scratch": started}
    for at, line in enumerate(_CONTINUED.sub("", _COMMENTS.sub("", text)).split("\n")):
        instruction = _INSTRUCTION.match(line)
        name, rest = (str(instruction[1]).upper(), instruction[2] or "") if instruction else ("RUN", line)
        arguments = _OPTIONS.sub("", rest, count=1)
        images = _FROM.findall(rest.removesuffix(arguments).replace("\\", ""))
        images = (
            (arguments.split() or [""])[:1] if name == "FROM" else [image for image in images if not image.isdecimal()]
        )
        yield from (image_name(image) for image in images if image.lower() not in stages)
        if name == "FROM":
            started = {**stages.get(images[0].lower(), {})}
        if name == "FROM" and (stage := re.fullmatch(r"(?i)\S+\s+as\s+([\w.-]+)\s*", arguments)):
            stages[stage[1].lower()] = started
        if name in ("RUN", "CMD", "ENTRYPOINT"):
            run = with_json(arguments)
            if name != "RUN" and isinstance(run, list):  # the words of CMD follow those of ENTRYPOINT
                started[name] = run
                run = [*started.get("ENTRYPOINT", ()), *started.get("CMD", ())]
            packages = packages_in(shlex.join(map(str, run)) if isinstance(run, list) else str(run))
            yield from packages
            # The first line of a part of a file may continue any instruction, unless it starts with an operator.
            if not (instruction or packages or at or re.match(r"\s*(?:[&|;]|$)", line)):
                yield image_name("")
