"""Invalid targets: `verify` reports the problem, exits with status 2, and soon."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, Write
from tests.tiers import slow_after, slow_but_every

SOURCES = {
    "a syntax error": ("graph = (", "flow.py:1: not Python"),
    "an import that fails": ("import no_such_module", "flow.py:1: ModuleNotFoundError: No module named"),
    "an import of its own that fails": ("from flow_parts import x", "No module named 'flow_parts'"),
    "sys.exit": ("import sys\nsys.exit('no')", "importing it calls sys.exit('no')"),
    "a process that ends": ("import os\nos._exit(0)", "importing it ended the process"),
    "an error while importing": ("graph = {}['x']", "flow.py:1: KeyError: 'x'"),
    "an interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "recursion without end": ("def f(): return f()\nf()", "RecursionError"),
    "a text": ("graph = 'a > b'", "'builtins.str' is not a workflow"),
    "nothing": ("graph = None", "is not a workflow"),
    "something that prints and has no graph": ("print('{}'); graf = 1", "no attribute 'graph'; did you mean 'graf'"),
}


@pytest.mark.parametrize("case", slow_but_every(3, SOURCES))
def test_a_module_without_a_graph(cli: Cli, write: Write, case: str) -> None:
    """Its printed output does not appear in the result."""
    source, problem = SOURCES[case]
    ran = cli("verify", f"{write('flow.py', source)}:graph", "--format", "json")
    assert (ran.status, ran.out) == (2, "")
    assert problem in unwrapped(ran.err)


def unwrapped(text: str) -> str:
    return " ".join(text.split())


NODES = [{"id": "s", "kind": "entry"}, {"id": "e", "kind": "exit"}]
GRAPH = {"name": "g", "framework": "json", "entry_id": "s", "exit_ids": ["e"], "nodes": NODES, "edges": []}
GRAPHS: dict[str, tuple[Any, str]] = {
    "a dangling edge": ({"edges": [{"source": "s", "target": "x"}]}, "edges[0].target: there is no node 'x'"),
    "ids that stand twice": (
        {"nodes": [*NODES, {"id": "e", "kind": "llm"}]},
        "nodes[2].id: 'e' is already the id of another",
    ),
    "no entry": ({"nodes": [{"id": "s", "kind": "llm"}, NODES[1]]}, "the nodes of kind 'entry' are none"),
    "two entries": ({"nodes": [*NODES, {"id": "s2", "kind": "entry"}]}, "the nodes of kind 'entry' are 's', 's2'"),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_json_that_is_not_a_graph(cli: Cli, write: Write, case: str) -> None:
    """The error has the path in the JSON."""
    changed, problem = GRAPHS[case]
    ran = cli("verify", write("graph.json", json.dumps({**GRAPH, **changed})))
    assert (ran.status, ran.out) == (2, "")
    assert problem in unwrapped(ran.err)


MUCH = {
    "numbers": ("[", "1, ", "1]"),
    "one text": ('"', "a", '"'),
    "brackets": ("", "[", ""),
    "brackets that end": ('{"nodes": ', "[", "]" * 10 + "}"),
    "other keys": ("{", '"k": 1, ', '"l": 1}'),
    "numbers as nodes": ('{"nodes": [', "1, ", "1]}"),
    "a text as nodes": ('{"nodes": "', "a", '"}'),
    "a text as an id": ('{"nodes": [{"id": "', "a", '"}]}'),
    "numbers as metadata": ('{"nodes": [{"id": "a", "kind": "llm", "metadata": [', "1, ", "1]}]}"),
    "a name": ('{"name": "', "a", '"}'),
    "spaces": ("", " ", ""),
    "zeros": ("", "\0", ""),
}
MEASURED = """
import resource, sys
from guardagent.cli.main import main
try:
    main(["verify", sys.argv[1]])
except SystemExit as stop:
    usage = resource.getrusage(resource.RUSAGE_SELF)  # its ru_maxrss begins with that of the parent
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(stop.code, usage.ru_utime + usage.ru_stime, int(peak) * 1024)
"""


@pytest.mark.parametrize("case", slow_after(2, MUCH))
def test_large_json_that_is_not_a_graph(tmp_path: Path, case: str) -> None:
    """Ten million bytes take bounded time, and little memory beyond the input itself."""
    start, more, end = MUCH[case]
    path = tmp_path / "much.json"
    path.write_text(start + more * (10_000_000 // len(more)) + end)
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, timeout=30, check=True
    )
    status, seconds, memory = map(float, ran.stdout.split())
    assert status == 2
    assert "much.json" in unwrapped(ran.stderr)
    assert seconds < 5
    assert memory < 400_000_000
