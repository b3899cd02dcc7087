"""The path of one question through the package: `python benchmarks/flows.py [--json] [--path FLOW]`.

| flow | what is counted |
|---|---|
| `langgraph` | one allowed call of a tool, through the middleware and a ToolNode; skipped where LangGraph is missing |
| `guard` | one question to `guard(...)` that an accepted program answers |
| `verify` | a graph of two nodes, from its file, held against the structural checks and one rule |

It counts calls of the package's own functions (resuming a generator counts, a comprehension does not), their files,
changes of file between consecutive calls, and conversions of the tool call's arguments (walked and rebuilt). A flow is
repeated until two runs take the same number of calls, so that nothing is still being loaded. `--path` lists the calls
of one flow.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import count, groupby
from pathlib import Path
from types import FrameType
from typing import Any

import guardagent

ROOT = f"{Path(guardagent.__file__).parent}/"
MAX_WARM_UPS = 20
CONVERTING = {"plain", "plain_arguments", "freeze", "thaw"}  # functions that rebuild values
MARK = "order-of-the-arguments"
POLICY = """
version: 1
policies:
  - id: limit
    temporal: forall(refund(amount=a), a <= 100)
"""
TEMPORAL = """
version: 1
policies:
  - id: login
    temporal: G(tool:refund -> O tool:login)
"""
GRAPH = {
    "name": "two nodes",
    "framework": "json",
    "entry_id": "start",
    "exit_ids": ["refund"],
    "nodes": [{"id": "start", "kind": "entry"}, {"id": "refund", "kind": "exit", "tools": ["refund"]}],
    "edges": [{"source": "start", "target": "refund"}],
}
Run = Callable[[], None]


@dataclass(slots=True)
class Travel:
    """One run of a flow: its calls as (file, function), and how often the arguments of a tool were converted."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    conversions: int = 0

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT) or _is_comprehension(frame):
            return
        self.calls.append((code.co_filename.removeprefix(ROOT), code.co_qualname))
        if code.co_name in CONVERTING and not _within_another(frame) and MARK in repr(frame.f_locals):
            self.conversions += 1


def _is_comprehension(frame: FrameType) -> bool:
    name = frame.f_code.co_name
    return name.startswith("<") and name != "<lambda>"


def _within_another(frame: FrameType) -> bool:
    around = frame.f_back
    while around is not None and _is_comprehension(around):
        around = around.f_back
    return around is not None and around.f_code.co_name in CONVERTING and around.f_code.co_filename.startswith(ROOT)


@dataclass(frozen=True, slots=True)
class Count:
    """The counts of a flow; `conversions` is None without a tool call."""

    calls: int
    files: int
    changes: int
    conversions: int | None

    @classmethod
    def of(cls, travel: Travel) -> Count:
        files = [file for file, _ in travel.calls]
        return cls(len(files), len(set(files)), sum(1 for _ in groupby(files)) - 1, travel.conversions or None)


@contextmanager
def followed() -> Iterator[Travel]:
    """Traces calls in this thread and in threads started there."""
    travel = Travel()
    threading.setprofile(travel.note)
    sys.setprofile(travel.note)
    try:
        yield travel
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def warm(run: Run) -> Travel:
    """A run that takes as many calls as the one before."""
    taken = -1
    for _ in range(MAX_WARM_UPS):
        with followed() as travel:
            run()
        if len(travel.calls) == taken:
            return travel
        taken = len(travel.calls)
    raise RuntimeError(f"no two runs of {MAX_WARM_UPS} in a row took as many calls")


# --- the flows: each makes what it needs, and gives what is run


def langgraph(folder: Path) -> Run:
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    from guardagent.frameworks.langgraph.adapter import GuardMiddleware

    @tool  # type: ignore[untyped-decorator]
    def refund(order_id: str, amount: int = 500) -> str:
        """Pays."""
        return "paid" if order_id and amount else "nothing paid"

    middleware = GuardMiddleware(guardagent.ToolGuard(_written(folder / "policies.yaml", POLICY)), [refund])
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([refund], wrap_tool_call=middleware.wrap_tool_call))
    builder.add_edge(START, "tools")
    graph, numbers = builder.compile(), count()

    def run() -> None:
        call = {"name": "refund", "args": {"order_id": MARK, "amount": 50}, "id": f"call {next(numbers)}"}
        message = AIMessage("", tool_calls=[call])
        answer = graph.invoke({"messages": [message]}, {"configurable": {"thread_id": "one"}})
        assert answer["messages"][-1].content == "paid"

    return run


def guard(_: Path) -> Run:
    known = guardagent.GuardAgent(agent="ehragent", mode="program").known_agent
    assert known is not None
    shown, numbers = known.demonstrations[0], count()

    def run() -> None:  # a fresh log: the toolbox caches its results
        log = f"{shown.agent_output} {next(numbers)}"
        verdict = guardagent.guard(None, shown.agent_input, log, agent="ehragent")
        assert not verdict.errors, verdict.errors

    return run


def verify(folder: Path) -> Run:
    graph = _written(folder / "graph.json", json.dumps(GRAPH))
    policies = guardagent.load_policies(_written(folder / "policies.yaml", TEMPORAL))

    def run() -> None:
        guardagent.verify(graph, policies)

    return run


FLOWS: dict[str, Callable[[Path], Run]] = {"langgraph": langgraph, "guard": guard, "verify": verify}


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# --- what is printed


def travelled(name: str) -> Travel | str:
    """The trace of a flow, or the reason why it cannot run here."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return warm(FLOWS[name](Path(folder)))
        except ImportError as error:
            return str(error)


def row(name: str, found: Travel | str) -> str:
    """A line of the table."""
    if isinstance(found, str):
        return f"| {name} | skipped: {found} | | | |"
    cells = ["" if one is None else f"{one:,}" for one in asdict(Count.of(found)).values()]
    return f"| {' | '.join([name, *cells])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="How far one question travels through the package.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--path", choices=FLOWS, help="list the calls of one flow")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    found = {name: travelled(name) for name in ([options.path] if options.path else FLOWS)}
    if options.path:
        travel = found[options.path]
        print(travel if isinstance(travel, str) else "\n".join(" ".join(call) for call in travel.calls))
    elif options.json:
        print(json.dumps({n: {"skipped": o} if isinstance(o, str) else asdict(Count.of(o)) for n, o in found.items()}))
    else:
        print("| flow | calls | files | changes of file | conversions of the arguments |\n|---|---|---|---|---|")
        print("\n".join(row(name, one) for name, one in found.items()))


if __name__ == "__main__":
    main()
