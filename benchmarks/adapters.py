"""The cost that a guard adds to a tool call, host by host: `python -m benchmarks.adapters [CALLS [WHERE [HOST]...]]`.

Each file of `benchmarks/adapters/` measures CALLS (400) unguarded and CALLS guarded calls, alternating in one run,
from the host's call of the tool to its result. The table has the medians of wall time and their difference. The target
is below 0.3 ms, and below 3 ms for the MCP proxy, which is a separate process. A host that is not installed is listed
as such: each has an environment of its own.

WHERE is `here`, for a `ToolGuard`; `server`, for a `RemoteGuard` with a server of this machine (SQLite); or `delayed`,
for one whose outcomes go with the next check. The MCP rows and LiteLLM have a `ToolGuard` in any case.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import limit_guard
from benchmarks.server import served
from guardagent import InputError, RemoteGuard

CALLS = 400
Measure = Callable[[int], tuple[list[float], list[float]]]


def measures() -> dict[str, Measure]:
    """Row name -> measuring function."""
    measures: dict[str, Measure] = {}
    for path in sorted((Path(__file__).parent / "adapters").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"adapters_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        measures |= getattr(module, "MEASURES", {path.stem.replace("_", "-"): getattr(module, "measure", None)})
    return {name: measure for name, measure in measures.items() if callable(measure)}


def row(name: str, measure: Measure, calls: int) -> str:
    """A row of the table."""
    try:
        plain, guarded = (statistics.median(seconds) * 1e6 for seconds in measure(calls))
    except (ImportError, InputError) as error:
        return f"| {name} | not installed: {str(error).splitlines()[0]} | | |"
    return f"| {name} | {plain:,.0f} µs | {guarded:,.0f} µs | {guarded - plain:,.0f} µs |"


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else CALLS
    where, hosts = (sys.argv[2] if len(sys.argv) > 2 else "here"), sys.argv[3:]
    logging.disable(logging.WARNING)
    with contextlib.ExitStack() as stack:

        def guard_of_server(more: str, **options: Any) -> RemoteGuard:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            port, token, _ = stack.enter_context(served(folder, "sqlite", limit_guard.POLICY + more))
            delay = 0.1 if where == "delayed" else 0.0
            return RemoteGuard(f"http://127.0.0.1:{port}", token=token, outcome_delay=delay, **options)

        limit_guard.guard_of_server = None if where == "here" else guard_of_server
        print("| host | unguarded, p50 | guarded, p50 | difference |\n|---|---|---|---|")
        for name, measure in measures().items():
            if not hosts or name in hosts:
                print(row(name, measure, calls), flush=True)


if __name__ == "__main__":
    main()
