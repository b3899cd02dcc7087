"""A plain reading of the page "Configure permissions" of Claude Code (2.1.332), and random calls for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from random import Random
from typing import Any

SETTINGS = {
    "allow": [
        "Bash(git log:*)",
        "Bash(git commit *)",
        "Bash(npm run test:*)",
        "Bash(npm run build)",
        "Bash(* --version)",
        "Bash(make*)",
        "Bash(docker exec web pytest *)",
        "Edit(/src/**/*.ts)",
        "Edit(//tmp/scratch/**)",
        "WebFetch(domain:docs.python.org)",
        "WebFetch(domain:*.example.com)",
        "mcp__github",
        "mcp__db__read",
        "Read",
    ],
    "ask": ["Bash(git push *)", "Bash(npm run *)", "WebFetch(domain:ask.example.com)", "Edit(/src/secret.ts)"],
    "deny": [
        "Bash(rm *)",
        "Bash(curl:*)",
        "Bash(git push --force *)",
        "Read(./.env)",
        "Read(~/.ssh/**)",
        "Edit(//etc/**)",
        "mcp__db__drop",
        "WebFetch(domain:evil.example.com)",
    ],
}
ROOT = "/home/u/app"
ORDER = ("allow", "ask", "deny")
READ_ONLY = ["ls", "cat", "echo", "pwd", "head", "tail", "grep", "find", "wc", "which", "diff", "stat", "du"]
COMMANDS = [
    "git log",
    "git log --oneline -5",
    "git commit -m fix",
    "npm run test",
    "npm run test unit",
    "npm run build",
    "npm run lint",
    "node --version",
    "make",
    "make all",
    "makeup x",
    "docker exec web pytest -q",
    "docker exec web sh",
    "git push",
    "git push origin main",
    "git push --force origin",
    "rm -rf build",
    "rm",
    "curl https://x.io",
    "wget x.io",
    "python x.py",
    "npm install x",
    "git logs",
    "ls -la",
    "cat README.md",
    "grep -r x src",
    "find . -name x",
    "find . -delete",
    "wc -l a.py",
    "pwd",
    "echo hi",
    "du -sh .",
    "cat .env",
    "head -3 conf/.env",
    "tail ~/.ssh/id_rsa",
    "npm test",
    "yarn test",
    "npm run build now",
]
WRAPPERS = ["timeout 30 ", "time ", "nice ", "nohup ", "command "]
# Spellings that the report names as a difference -> whether the translation may allow more.
NAMED = {"FOO=1 ": False, "/usr/bin/": False, "sudo ": False, "env ": True, "setsid ": True}
PATHS = [
    "/home/u/app/src/a.ts",
    "/home/u/app/src/deep/b.ts",
    "/home/u/app/src/secret.ts",
    "/home/u/app/a.py",
    "/etc/hosts",
    "/tmp/scratch/x/y",  # noqa: S108 - a path in a call
    "/tmp/x",  # noqa: S108 - a path in a call
    "/home/u/.ssh/id_rsa",
    "/home/u/app/.env",
    "/home/u/app/.envrc",
    "/home/u/other/src/a.ts",
]
URLS = [
    "https://docs.python.org/3/",
    "http://docs.python.org",
    "https://python.org",
    "https://a.example.com/x",
    "https://ask.example.com/",
    "https://evil.example.com/?q=1",
    "https://docs.python.org@evil.com/",
    "https://evildocs.python.org/",
    "https://example.com",
]
TOOLS = [
    "mcp__github__list",
    "mcp__github",
    "mcp__githubx__y",
    "mcp__db__read",
    "mcp__db__drop",
    "mcp__db__readall",
    "TodoWrite",
]


@dataclass(frozen=True)
class Call:
    """A call, and whether its spelling is a named difference: that it may be allowed more than in the host, or not."""

    tool: str
    arguments: dict[str, Any]
    wider: bool | None = None


def random_call(random: Random) -> Call:
    pick = random.choice
    kind = random.random()
    if kind < 0.7:
        return _random_command(random)
    if kind < 0.85:
        return Call(pick(["Read", "Edit", "Write"]), {"file_path": pick(PATHS)})
    return Call("WebFetch", {"url": pick(URLS)}) if kind < 0.94 else Call(pick(TOOLS), {})


def _random_command(random: Random) -> Call:
    pick, differences, text = random.choice, [], ""
    for number in range(pick([1, 1, 1, 2, 2, 3])):
        command = pick(COMMANDS)
        if random.random() < 0.2:
            command = pick(WRAPPERS) + command
        elif random.random() < 0.1:
            prefix = pick(list(NAMED))
            differences.append(NAMED[prefix])
            command = prefix + command
        if "docker" in command:
            differences.append(command.endswith("sh"))
        if random.random() < 0.06:
            command, difference = pick(
                [(f"bash -c '{command}'", True), (f"({command})", None), (f"{command} > out.txt", False)]
            )
            differences += [] if difference is None else [difference]
        text += (pick([" && ", "; ", " | ", " || ", "\n", " & "]) if number else "") + command
    return Call("Bash", {"command": text}, any(differences) if differences else None)


def decide(call: Call) -> str:
    """Returns the decision: deny, ask and allow in this order, and the default for the kind of tool."""
    if call.tool == "Bash":
        return _of_command(call.arguments["command"])
    if "file_path" in call.arguments:
        return _of_path(call.tool, call.arguments["file_path"])
    if call.tool == "WebFetch":
        host = re.match(r"https?://(?:[^/@]*@)?([^/:?]*)", call.arguments["url"])
        assert host
        matching = {
            name
            for name in ORDER
            for rule in _texts(name, "WebFetch")
            if fnmatchcase(host[1], rule.removeprefix("domain:"))
        }
        return _first(matching, "ask")
    matching = {
        name for name in ORDER for rule in SETTINGS[name] if call.tool == rule or call.tool.startswith(f"{rule}__")
    }
    return _first(matching, "ask" if call.tool.startswith("mcp__") else "allow")


def _texts(name: str, tool: str) -> list[str]:
    return [entry[len(tool) + 1 : -1] for entry in SETTINGS[name] if entry.startswith(f"{tool}(")]


def _first(matching: set[str], default: str) -> str:
    return next((name for name in ("deny", "ask", "allow") if name in matching), default)


def _of_command(text: str) -> str:
    parts = [part.strip("() ") for part in re.split(r"&&|\|\||;|\||&|\n", text)]
    redirected = any(">" in part for part in parts)
    parts = [_without_wrappers(part) for part in parts]
    if any(_matches(re.sub(r"^\w+=\S* ", "", part), rule) for part in parts for rule in _texts("deny", "Bash")) or any(
        map(_reads_denied, parts)
    ):
        return "deny"
    if any(_matches(re.sub(r"^\w+=\S* ", "", part), rule) for part in parts for rule in _texts("ask", "Bash")):
        return "ask"
    is_allowed = all(
        _is_read_only(part) or any(_matches(part, rule) for rule in _texts("allow", "Bash")) for part in parts
    )
    return "allow" if is_allowed and not redirected else "ask"


def _without_wrappers(part: str) -> str:
    while match := re.match(r"(?:timeout \S+|time|nice|nohup|command) ", part):
        part = part[match.end() :]
    return part


def _is_read_only(part: str) -> bool:
    return part.split(maxsplit=1)[0] in READ_ONLY and "-delete" not in part


def _matches(part: str, rule: str) -> bool:
    rule = re.sub(r":\*$", " *", rule)
    if rule.endswith(" *") and part == rule[:-2]:
        return True
    return re.fullmatch(".*".join(map(re.escape, rule.split("*"))), part) is not None


def _reads_denied(part: str) -> bool:
    words = part.split()
    return words[0] in ("cat", "head", "tail", "grep") and any(
        word.endswith(".env") or word.startswith("~/.ssh/") for word in words[1:]
    )


def _of_path(tool: str, path: str) -> str:
    denied = path.endswith("/.env") or path.startswith("/home/u/.ssh/")
    if denied or (tool != "Read" and path.startswith("/etc/")):
        return "deny"
    if tool == "Read":
        return "allow"
    if path == f"{ROOT}/src/secret.ts":
        return "ask"
    return "allow" if re.fullmatch(rf"{ROOT}/src/(?:.*/)?[^/]*\.ts|/tmp/scratch/.*", path) else "ask"
