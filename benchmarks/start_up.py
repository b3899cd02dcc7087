"""The cost of starting: `python benchmarks/start_up.py [ROUNDS] [--against CHECKOUT]`, in ms of CPU time, medians.

Each line is a process of its own, and all of them are started in turn in each round. `import guardagent` is compared
with `import openai`, above a process that does nothing; a command with a process that only imports Typer. The load is
that of a policy in a process that has loaded another one. A server's time lasts from its start to its first answered
check. With `--against`, another checkout of the package is measured in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.server import KeptConnection, cpu_seconds, policy, served, tools
from guardagent.cli.project import create

ROOT = Path(__file__).parents[1]
ROUNDS = 21
COMMAND = ["-m", "guardagent"]
CHECK = [*COMMAND, "check", "one.jsonl", "--policies", "policies.yaml"]
STARTED = {
    "nothing": ["-c", "pass"],
    "import openai": ["-c", "import openai"],
    "import guardagent": ["-c", "import guardagent"],
    "import typer": ["-c", "import typer"],
    "guardagent --help": [*COMMAND, "--help"],
    "guardagent check, one case": [*CHECK, "--json"],
    "guardagent check, in words": CHECK,
}
WANTED = {"import guardagent": 0.08, "guardagent --help": 2.0, "guardagent check, one case": 2.0}
LOAD = """
import statistics, time
from guardagent import load_policies

def load(path):
    before = time.process_time()
    load_policies(path)
    return 1000 * (time.process_time() - before)

load("policies.yaml")
print(statistics.median(load("rules.yaml") for _ in range(5)))
"""
MEASURED_RULES = 1000
SERVED_RULES = (10, MEASURED_RULES)
PER_TOOL = 20


def main(rounds: int, checkouts: list[Path]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        create(Path(folder, "starter"))
        cases = Path(folder, "starter", "cases.jsonl").read_text(encoding="utf-8").splitlines()
        Path(folder, "starter", "one.jsonl").write_text(cases[0], encoding="utf-8")
        rules = policy(MEASURED_RULES, MEASURED_RULES // PER_TOOL)
        Path(folder, "starter", "rules.yaml").write_text(rules, encoding="utf-8")
        lines = {name: partial(cpu, arguments, Path(folder)) for name, arguments in STARTED.items()}
        lines[f"load of {MEASURED_RULES:,} rules"] = partial(load, Path(folder))
        for count in SERVED_RULES:
            lines[f"first check of a server, {count:,} rules"] = partial(first_check, count)
        measured: dict[Path, dict[str, list[float]]] = {
            checkout: {name: [] for name in lines} for checkout in checkouts
        }
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(rounds + 1):
            for name, measure in lines.items():
                for at, checkout in enumerate(checkouts):
                    compiled = str(Path(folder, f"compiled{at}"))
                    os.environ |= {"PYTHONPYCACHEPREFIX": compiled, "PYTHONPATH": str(checkout)}
                    spent = measure()
                    if number:  # the first round compiles the modules, wherever they lie
                        measured[checkout][name].append(spent)
    for checkout, figures in measured.items():
        print(checkout.name)
        show({name: statistics.median(times) for name, times in figures.items()})


def started(arguments: list[str], folder: Path) -> str:
    ran = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, *arguments], cwd=folder / "starter", capture_output=True, text=True, check=False
    )
    if ran.returncode:
        sys.exit(ran.stderr)
    return ran.stdout


def cpu(arguments: list[str], folder: Path) -> float:
    """The CPU milliseconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started(arguments, folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def load(folder: Path) -> float:
    return float(started(["-c", LOAD], folder))


def first_check(rules: int) -> float:
    """The CPU milliseconds of a server until it has answered a check."""
    count = max(1, rules // PER_TOOL)

    async def check(port: int, token: str) -> None:
        connection = KeptConnection(port, token)
        attachment = await connection.post("/v1/attachments", {"policy": "default", "tools": tools(count)})
        session = await connection.post("/v1/sessions", {"attachment": attachment["id"]})
        call = {"id": "first", "tool": "authenticate", "args": {"user": "ann"}}
        await connection.post(f"/v1/sessions/{session['id']}/check", {"call": call})

    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder), "sqlite", policy(rules, count)) as (port, token, pid),
    ):
        asyncio.run(check(port, token))
        return 1000 * cpu_seconds(pid)


def show(medians: dict[str, float]) -> None:
    nothing, typer = medians["nothing"], medians["import typer"]
    for name, median in medians.items():
        ratio = median / typer
        of = "of `import typer`"
        if name.startswith("import"):
            ratio, of = (median - nothing) / (medians["import openai"] - nothing), "of `import openai`"
        wanted = f"  wanted: at most {WANTED[name]}" if name in WANTED else ""
        print(f"{name:36} {median:7.1f} ms  {ratio:5.2f} {of}{wanted}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", nargs="?", type=int, default=ROUNDS)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    main(options.rounds, [ROOT, *([options.against] if options.against else [])])
