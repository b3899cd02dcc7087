"""The CPU time of the packs on long arguments: `python benchmarks/packs.py [--against CHECKOUT]`, in milliseconds.

The texts are generated from a seed: prose, listings, code, diffs, logs, minified JavaScript, JSON, base64 and text that
is not ASCII, with a few strings that look like credentials. Each is an argument of a call, or an output that a session
records. Each number is the least of a few rounds, in new sessions. With another checkout, both run, in turns.
"""

from __future__ import annotations

import base64
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from guardagent import Policies, load_policies

SIZE = 990_000  # characters: a search accepts a million
ROUNDS = 2
WORDS = (
    "the order of a customer is shipped on time and the refund for item value config key token path file user table "
    "return import class data url host test error status count index name service request response cache update"
).split()


def texts(seed: int = 1) -> dict[str, str]:
    """Texts by kind."""
    source = random.Random(seed)  # noqa: S311 - the same every time

    def word() -> str:
        return source.choice(WORDS)

    def number() -> int:
        return source.randrange(10**6)

    lines: dict[str, Callable[[], str]] = {
        "prose": lambda: " ".join(word() for _ in range(12)) + ".",
        "listing": lambda: f"{word()}_{word()}-{number()}.py" if source.random() < 0.95 else f"\n./{word()}/{word()}:",
        "code": lambda: f"    {word()}_{word()} = self.{word()}({word()}[{number()}], {word()!r})  # {word()} {word()}",
        "diff": lambda: f"{source.choice('+- ')}    {word()}.{word()}({word()}={number()})",
        "log": lambda: f"2026-11-29T10:00:00Z {word().upper()} [{number()}] {word()}={word()} {word()}: {number()}ms",
        "javascript": lambda: f"function {word()}({word()[0]}){{return {word()[0]}.{word()}?{number()}:{word()[0]}()}}",
        "json": lambda: json.dumps({"id": number(), "name": word(), "tags": [word(), word()], "note": "on time"}),
        "base64": lambda: base64.b64encode(source.randbytes(57)).decode(),
        "unicode": lambda: f"{word()} café: {word()}: 注文番号 {number()} {word()}",
    }
    return {kind: _text(source, kind, line) for kind, line in lines.items()}


def _text(source: random.Random, kind: str, line: Callable[[], str]) -> str:
    sign = {"javascript": ";", "json": ",\n"}.get(kind, "\n")
    parts, size = [], 0
    while size < SIZE - 200:
        parts.append(line())
        size += len(parts[-1]) + len(sign)
    if kind == "json":
        return "[" + sign.join(parts) + "]"
    for at in range(10):
        secret = f"{source.choice(['api_key', 'password', 'see'])}: {source.randbytes(6).hex()}"
        parts[len(parts) * at // 10] = secret if at else "a9 = '...'"
    return sign.join(parts)


def policies_of(rules: str) -> Policies:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "policies.yaml")
        path.write_text(f"version: 1\n{rules}", encoding="utf-8")
        return load_policies(path)


def pack(name: str) -> Policies:
    return policies_of(f"include:\n  - pack: guardagent:{name}\n")


def milliseconds(policies: Policies, tool: str, arguments: dict[str, Any], output: Any = None) -> float:
    """The least CPU time of a check, or of the record of an output.

    Each round has another argument, as packs keep what they have read.
    """
    times = []
    long = max(arguments, key=lambda name: len(str(arguments[name])))
    for round_ in range(ROUNDS):
        session = policies.session()
        changed = arguments | {long: f"{arguments[long]}{' ' * round_}"}
        start = time.process_time()
        verdict = session.check(tool, changed, reserve=output is not None)
        if output is not None:
            start = time.process_time()
            session.record(output, permit=verdict.permit)
        times.append((time.process_time() - start) * 1_000)
    return min(times)


def measurements() -> Iterator[tuple[str, float]]:
    samples = texts()
    secrets = pack("secrets")
    for kind, text in samples.items():
        yield f"secrets: 1 MB of {kind}", milliseconds(secrets, "write_file", {"path": "notes", "content": text})
    yield from _of_shell()
    for name, size in (("links", SIZE), ("tokens", 100_000)):
        policies = policies_of(f"policies: [{{id: a, temporal: 'forall(send(to=t), len({name}(t)) < 9)'}}]\n")
        for kind in ("listing", "log", "base64"):
            yield f"{name}: {size // 1000} kB of {kind}", milliseconds(policies, "send", {"to": samples[kind][:size]})
    labelled = "labels: {web: [fetch]}\npolicies: [{id: a, temporal: 'forall(send(to=t), !(\"web\" in sources(t)))'}]\n"
    rows = [{"id": number, "name": f"order {number}", "tags": ["a", "b"]} for number in range(20_000)]
    for name, policies in (
        ("", policies_of("policies: [{id: a, temporal: 'G !tool:b'}]\n")),
        (", with labels", policies_of(labelled)),
    ):
        for kind, output in (("prose", samples["prose"]), ("log", samples["log"]), ("rows", rows)):
            yield f"record: 1 MB of {kind}{name}", milliseconds(policies, "fetch", {"url": "a"}, output)
    yield (
        "email: a body of 1 MB of links",
        milliseconds(pack("email"), "send_email", {"to": "a@b.com", "body": "http://a.com/b " * 66_000}),
    )
    yield "web: an address of 100 kB", milliseconds(pack("web"), "fetch", {"url": "https://a.com" + "/../b" * 20_000})


def _of_shell() -> Iterator[tuple[str, float]]:
    """Harmless commands, each read for the first time; and the longest ones that the pack reads, in awkward shapes."""
    policies = pack("shell")
    runs = Path(__file__).parents[1] / "tests" / "packs" / "harmless_runs.jsonl"
    lines = runs.read_text(encoding="utf-8").splitlines()
    commands = dict.fromkeys(command for line in lines for command in json.loads(line))
    times = []
    for command in commands:
        start = time.process_time()
        policies.session().check("bash", {"command": command}, reserve=False)
        times.append((time.process_time() - start) * 1_000)
    times = sorted(times[20:])
    yield "shell: a harmless command, median", statistics.median(times)
    yield "shell: a harmless command, 99th percentile", times[len(times) * 99 // 100]
    shapes = {
        "a document of 64 kB": "cat > a <<'E'\n" + "a line of text\n" * 4_300 + "E\n",
        "a document of 18 kB": "cat > a <<'E'\n" + "a line of text\n" * 1_200 + "E\n",
        "a word of 19 kB": "echo " + "a" * 19_000,
        "1,000 quoted words": 'echo "a b" ' + '"a b" ' * 1_000,
        "1,000 files": "rm " + "/srv/a " * 1_000,
        "500 functions": "\n".join(f"f{number}() {{ ls; }}" for number in range(500)),
        "1,000 times cd": "cd a; " * 1_000,
        "100 nested substitutions": "echo " + "$(" * 100 + "ls" + ")" * 100,
    }
    for name, command in shapes.items():
        yield f"shell: {name}", milliseconds(policies, "bash", {"command": command})


def main() -> None:
    if sys.argv[1:2] != ["--against"]:
        for name, milli in measurements():
            print(f"{name}\t{milli:.2f}", flush=True)
        return
    columns = [sys.argv[2], str(Path(__file__).parents[1])]
    figures: dict[str, dict[str, list[float]]] = {}
    for checkout in columns * 2:
        environment = os.environ | {"PYTHONPATH": checkout}
        output = subprocess.check_output([sys.executable, __file__], env=environment, text=True)  # noqa: S603
        for line in output.splitlines():
            name, _, figure = line.partition("\t")
            figures.setdefault(name, {}).setdefault(checkout, []).append(float(figure))
    for name, by_checkout in figures.items():
        print(f"{name:48}" + "".join(f"{min(by_checkout[checkout]):12.2f}" for checkout in columns))


if __name__ == "__main__":
    main()
