"""JavaScript in a shell command (`node -e '...'`): only what computes, prints, loads modules and uses named files."""

from __future__ import annotations

import re

from guardagent.packs.shell.paths import is_secret_name

_TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/"
    r"|(?P<string>'(?:[^'\\\n]|\\[^xu\d])*'|\"(?:[^\"\\\n]|\\[^xu\d])*\"|`(?:[^`\\$]|\\[^xu\d]|\$(?!\{))*`)"
    r"|(?P<template>`(?:[^`\\]|\\[^xu\d])*`)|(?P<name>[A-Za-z_$][\w$]*)|(?P<number>\d[\w.]*)|(?P<sign>[^\s\w'\"`\\])",
    re.DOTALL,
)
_FORBIDDEN = frozenset(
    "eval Function constructor child_process exec execSync execFile spawn spawnSync fork vm worker_threads cluster "
    "globalThis global Reflect Proxy binding dlopen mainModule fetch XMLHttpRequest WebSocket http https net tls "
    "dgram createRequire Bun Deno prototype __proto__ getPrototypeOf unlink unlinkSync rm rmSync rmdir rmdirSync "
    "rename renameSync symlink symlinkSync link linkSync chmod chmodSync chown chownSync createWriteStream with this "
    "axios execa shelljs zx setPrototypeOf getBuiltinModule loadEnvFile homedir".split()
)
_MODULES = frozenset("path util url assert fs os events perf_hooks crypto querystring string_decoder buffer".split())
_PROCESS = frozenset(
    "version versions argv exit stdin stdout stderr nextTick platform arch cwd memoryUsage hrtime uptime "
    "exitCode on".split()
)
_WRITES = re.compile(r"(?:write|append|copy|mkdir|truncate|cp|open|save|promises)\w*")
_FILES = re.compile(
    r"(?:read|write|append|copy|cp|mkdir|truncate|open|stat|exists|access)(?:File|dir)?Sync"
    r"|(?:read|write|append|copy)File|createReadStream"
)
_JOINS = frozenset("join concat fromCharCode fromCodePoint reverse atob Buffer decode toString String".split())
_LONGEST_PATH = 200


def read_javascript(code: str) -> tuple[list[str], list[str], bool] | None:
    """The files that code opens, its other strings, and whether it writes; None if that is unknown."""
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(code):
        found = _TOKEN.match(code, at)
        if found is None:
            return None
        if found.lastgroup:
            tokens.append((found.lastgroup, found[0]))
        at = found.end()
    names = {text for kind, text in tokens if kind == "name"}
    strings = [text[1:-1] for kind, text in tokens if kind == "string"]
    for kind, text in tokens:
        if kind == "template":
            inner = [read_javascript(one) for one in re.findall(r"\$\{([^{}`]*)\}", text)]
            if None in inner or text.count("${") != len(inner):
                return None
            strings.extend(re.split(r"\$\{[^{}`]*\}", text[1:-1]))
    if names & _FORBIDDEN or _FORBIDDEN & {part for one in strings for part in re.split(r"[^\w]", one)} - {
        "this",
        "with",
    }:
        return None
    if not all(_is_harmless_at(tokens, n) for n in range(len(tokens))):
        return None
    if _computes_names(tokens) and (names & _JOINS or _joins_strings(tokens)):
        return None
    others = [one for one in strings if one and len(one) < _LONGEST_PATH and not re.search(r"\s", one)]
    return (_files(tokens), others, any(map(_WRITES.fullmatch, names)))


def _is_harmless_at(tokens: list[tuple[str, str]], at: int) -> bool:
    """Whether modules and files are named by strings, and only known parts of `process` are used."""
    kind, text = tokens[at]
    after = [*tokens[at + 1 : at + 4], *[("", "")] * 3][:3]
    if kind != "name":
        return True
    if text in ("require", "import"):
        if after[0][1] in ("(", "."):
            module = after[1][1][1:-1].removeprefix("node:")
            return after[0][1] == "(" and after[1][0] == "string" and after[2][1] == ")" and _is_module(module)
        sources = [tokens[n + 1] for n in range(at, len(tokens) - 1) if tokens[n] == ("name", "from")]
        named = sources[:1] or [after[0]]
        return text == "import" and named[0][0] == "string" and _is_module(named[0][1][1:-1].removeprefix("node:"))
    if text == "process":
        variable = tokens[at + 4][1] if len(tokens) > at + 4 and after[1:] == [("name", "env"), ("sign", ".")] else ""
        is_plain = variable.isidentifier() and not is_secret_name(variable)
        return after[0][1] == "." and (after[1][1] in _PROCESS or is_plain)
    if _FILES.fullmatch(text):
        inner = [one for _, one in tokens[at + 1 : at + 6]]
        if inner == ["(", "path", ".", "join", "("] and text.startswith("read") and not _joins_strings(tokens):
            return tokens[at + 6 : at + 7] != [] and tokens[at + 6][0] == "string"
        return after[0][1] == "(" and after[1][0] == "string" and after[2][1] in (",", ")")
    return True


def _is_module(name: str) -> bool:
    return name in _MODULES or name.partition("/")[0] not in _NODE_MODULES


_NODE_MODULES = frozenset(
    "child_process cluster dgram dns http http2 https inspector module net process repl tls v8 vm worker_threads "
    "wasi diagnostics_channel async_hooks axios execa shelljs zx node-fetch undici got superagent ws ssh2".split()
)


def _files(tokens: list[tuple[str, str]]) -> list[str]:
    return [
        tokens[n + 2][1][1:-1]
        for n in range(len(tokens) - 2)
        if tokens[n][0] == "name" and _FILES.fullmatch(tokens[n][1]) and tokens[n + 2][0] == "string"
    ]


def _computes_names(tokens: list[tuple[str, str]]) -> bool:
    """Whether a member is taken by a name that is computed: `a[b]`."""
    return any(
        tokens[n][1] == "["
        and (tokens[n - 1][0] == "name" or tokens[n - 1][1] in (")", "]"))
        and not (tokens[n + 1][0] in ("number", "string") and tokens[n + 2][1] == "]")
        for n in range(1, len(tokens) - 2)
    )


def _joins_strings(tokens: list[tuple[str, str]]) -> bool:
    return any(
        tokens[n][1] == "+" and "string" in (tokens[n - 1][0], tokens[n + 1][0]) for n in range(1, len(tokens) - 1)
    ) or any(kind == "template" for kind, _ in tokens)
