"""The cost of starting: `python benchmarks/start_up.py [ROUNDS]`, in milliseconds of CPU time, medians.

Each line is a process of its own, and all of them are started in turn in each round. `import guardagent` is compared
with `import openai`, above a process that does nothing; a command with a process that only imports Typer.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

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


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        create(Path(folder, "starter"))
        cases = Path(folder, "starter", "cases.jsonl").read_text(encoding="utf-8").splitlines()
        Path(folder, "starter", "one.jsonl").write_text(cases[0], encoding="utf-8")
        measured: dict[str, list[float]] = {name: [] for name in STARTED}
        for number in range(rounds + 1):
            for name, arguments in STARTED.items():
                spent = cpu(arguments, Path(folder))
                if number:  # the first round compiles the modules, wherever they lie
                    measured[name].append(spent)
    show({name: statistics.median(times) for name, times in measured.items()})


def cpu(arguments: list[str], folder: Path) -> float:
    """The CPU milliseconds of a process; its compiled modules are cached in a folder of the run."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": str(folder / "compiled"), "PYTHONPATH": str(ROOT)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, *arguments], cwd=folder / "starter", env=environment, capture_output=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode:
        sys.exit(ran.stderr.decode())
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def show(medians: dict[str, float]) -> None:
    nothing, typer = medians["nothing"], medians["import typer"]
    for name, median in medians.items():
        ratio = median / typer
        of = "of `import typer`"
        if name.startswith("import"):
            ratio, of = (median - nothing) / (medians["import openai"] - nothing), "of `import openai`"
        wanted = f"  wanted: at most {WANTED[name]}" if name in WANTED else ""
        print(f"{name:27} {median:7.1f} ms  {ratio:5.2f} {of}{wanted}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
