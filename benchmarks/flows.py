"""The path of one unit of work through the package: `python benchmarks/flows.py [--json] [--path FLOW]`.

| flow | counted |
|---|---|
| `check` | an allowed `Session.check` |
| `langgraph` | an allowed call of a tool, through a guarded ToolNode; skipped where LangGraph is not installed |
| `guard` | a question to `guard(...)`, which the program of a shipped agent answers |
| `verify graph.json` | a graph of two nodes, held against the structural checks and one rule |
| `verify app.py` | the command `guardagent verify` for the source of a LangGraph program, in a fresh process |
| `server` | `POST /v1/sessions/ID/check` to `guardagent serve`, with its state in SQLite |
| `audit` | the command `guardagent audit` for a file of two traces |

It counts calls of the package's own functions in all threads, these functions, their files, changes of file between
consecutive calls, conversions of a tool call's arguments (walked and rebuilt), and the modules of the package that the
process has loaded. Resuming a generator or a coroutine is a call; a comprehension, the body of a module or a class, and
what runs within an import are not. Each flow has a process of its own. There it is repeated until two runs take the
same number of calls, so that nothing is still being loaded; of `verify app.py`, the first run counts. `--path` lists
the calls of one flow. PYTHONPATH can name another checkout, whose package is then counted.
"""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import multiprocessing
import runpy
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec
from io import StringIO
from itertools import count, groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from urllib.request import Request, urlopen

import guardagent

ROOT = f"{Path(guardagent.__file__).parent}/"
MAX_WARM_UPS = 20
CONVERTING = {"plain", "plain_arguments", "freeze", "thaw"}  # functions that rebuild values
MARK = "order-of-the-arguments"
ARGUMENTS = {"order_id": MARK, "amount": 50}
LIMIT = """
version: 1
policies:
  - id: limit
    temporal: forall(refund(amount=a), a <= 100)
"""
LOGIN = """
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
APP = """
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

@tool
def login(user: str) -> str:
    "Logs the customer in."
    return "welcome"

@tool
def refund(order_id: str, amount: int) -> str:
    "Pays an order back."
    return "paid"

builder = StateGraph(MessagesState)
builder.add_node("login", ToolNode([login]))
builder.add_node("refund", ToolNode([refund]))
builder.add_edge(START, "login")
builder.add_conditional_edges("login", lambda state: END if state["messages"] else "refund", ["refund", END])
builder.add_edge("refund", END)
graph = builder.compile()
"""
Run = Callable[[], object]


@dataclass(slots=True)
class Travel:
    """One run of a flow: its calls as (file, function), and how often the arguments of a tool were converted."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    conversions: int = 0
    modules: int = 0

    def note(self, frame: FrameType) -> None:
        code = frame.f_code
        self.calls.append((code.co_filename.removeprefix(ROOT), code.co_qualname))
        if code.co_name in CONVERTING and not _within_another(frame) and MARK in repr(frame.f_locals):
            self.conversions += 1


class Tracer:
    """Notes the calls of a run, in this thread and in all that were started after the tracer."""

    def __init__(self) -> None:
        self._travel: Travel | None = None
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def follow(self, run: Run) -> Travel:
        travel = self._travel = Travel()
        try:
            run()
        finally:
            self._travel = None
        travel.modules = sum(name.partition(".")[0] == "guardagent" for name in sys.modules)
        return travel

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if (travel := self._travel) and event == "call" and _is_own_function(frame.f_code) and not _in_import(frame):
            travel.note(frame)


def _is_own_function(code: CodeType) -> bool:
    """Whether it is a function of the package: no module, class or comprehension."""
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED) and not _is_comprehension(code)
    return is_function and code.co_filename.startswith(ROOT)


def _is_comprehension(code: CodeType) -> bool:
    return code.co_name.startswith("<") and code.co_name != "<lambda>"


def _in_import(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _within_another(frame: FrameType) -> bool:
    around = frame.f_back
    while around is not None and _is_comprehension(around.f_code):
        around = around.f_back
    return around is not None and around.f_code.co_name in CONVERTING and around.f_code.co_filename.startswith(ROOT)


@dataclass(frozen=True, slots=True)
class Count:
    """The counts of a flow; `conversions` is None without a tool call."""

    files: int
    functions: int
    calls: int
    changes: int
    conversions: int | None
    modules: int

    @classmethod
    def of(cls, travel: Travel) -> Count:
        files = [file for file, _ in travel.calls]
        changes = sum(1 for _ in groupby(files)) - 1
        functions = len(set(travel.calls))
        return cls(len(set(files)), functions, len(files), changes, travel.conversions or None, travel.modules)


# --- the flows: each yields its runs, and does between them what is not counted


def check(folder: Path) -> Iterator[Run]:
    session = guardagent.load_policies(_written(folder / "policies.yaml", LIMIT)).session()
    while True:
        yield partial(session.check, "refund", ARGUMENTS)
        session.record("paid")


def langgraph(folder: Path) -> Iterator[Run]:
    if find_spec("langgraph") is None:
        raise ImportError("langgraph is not installed")
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langgraph.graph import START, MessagesState, StateGraph

    from guardagent.frameworks.langgraph import guarded_tool_node

    paid = []

    @tool  # type: ignore[untyped-decorator]
    def refund(order_id: str, amount: int = 500) -> str:
        """Pays."""
        paid.append((order_id, amount))
        return "paid"

    guard = guardagent.ToolGuard(_written(folder / "policies.yaml", LIMIT))
    builder = StateGraph(MessagesState)
    builder.add_node("tools", guarded_tool_node(guard, [refund]))
    builder.add_edge(START, "tools")
    graph = builder.compile()
    for number in count(1):
        message = AIMessage("", tool_calls=[{"name": "refund", "args": ARGUMENTS, "id": f"call {number}"}])
        yield partial(graph.invoke, {"messages": [message]}, {"configurable": {"thread_id": "customer"}})
        assert len(paid) == number


def guard(_: Path) -> Iterator[Run]:
    agent = guardagent.GuardAgent(agent="ehragent", mode="program").known_agent
    assert agent is not None
    shown = agent.demonstrations[0]
    for number in count():  # a fresh log: the toolbox caches its results
        log = f"{shown.agent_output} {number}"
        yield partial(guardagent.guard, None, shown.agent_input, log, agent="ehragent")


def verify_graph(folder: Path) -> Iterator[Run]:
    graph = _written(folder / "graph.json", json.dumps(GRAPH))
    policies = guardagent.load_policies(_written(folder / "policies.yaml", LOGIN))
    while True:
        yield partial(guardagent.verify, graph, policies)


def verify_app(folder: Path) -> Iterator[Run]:
    app, policy = _written(folder / "app.py", APP), _written(folder / "policies.yaml", LOGIN)
    yield partial(_command, "verify", app, "--policies", policy)


def server(folder: Path) -> Iterator[Run]:
    tokens, policy = folder / "tokens.db", _written(folder / "policies.yaml", LIMIT)
    with redirect_stdout(StringIO()) as output:
        _command("token", "create", "--tokens", tokens, "--principal", "bot", "--role", "agent", "--tenant", "default")
    head = {"Authorization": f"Bearer {output.getvalue().split()[-1]}", "Content-Type": "application/json"}
    address = _free_address()
    options = ["--policies", policy, "--state", f"sqlite:{folder}/state", "--tokens", tokens, "--listen", address]
    threading.Thread(target=_command, args=("serve", *options), daemon=True).start()
    _wait_for(address)

    def post(path: str, value: object) -> Any:
        key = {"Idempotency-Key": json.dumps(value)} if path.endswith("check") else {}
        request = Request(f"http://{address}/v1/{path}", json.dumps(value).encode(), {**head, **key})
        with urlopen(request) as answer:  # noqa: S310
            result = json.load(answer)
        time.sleep(0.1)  # for what the server does after its answer
        return result

    attachment = post("attachments", {"tools": [{"name": "refund"}]})["id"]
    session = post("sessions", {"attachment": attachment})["id"]
    for number in count():
        call = {"id": f"call{number}", "tool": "refund", "args": ARGUMENTS}
        yield partial(post, f"sessions/{session}/check", {"call": call})
        outcome = {"output": "paid", "failed": False, "ended": True}
        post(f"sessions/{session}/record", {"call_id": call["id"], "outcome": outcome})


def audit(folder: Path) -> Iterator[Run]:
    event = {"tool": "refund", "args": ARGUMENTS, "output": "paid"}
    lines = [json.dumps({"id": name, "events": [event]}) for name in ("first", "second")]
    traces, policy = _written(folder / "traces.jsonl", "\n".join(lines)), _written(folder / "policies.yaml", LIMIT)
    while True:
        yield partial(_command, "audit", traces, "--policies", policy)


FLOWS: dict[str, Callable[[Path], Iterator[Run]]] = {
    "check": check,
    "langgraph": langgraph,
    "guard": guard,
    "verify graph.json": verify_graph,
    "verify app.py": verify_app,
    "server": server,
    "audit": audit,
}
FRESH = {"verify app.py"}


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def _command(*arguments: object) -> None:
    """Runs the command line in this process."""
    sys.argv = ["guardagent", *map(str, arguments)]
    try:
        runpy.run_module("guardagent", run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"'guardagent {arguments[0]}' ended with status {end.code}") from end


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def _wait_for(address: str) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", int(address.partition(":")[2]))).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the server did not start")


# --- what is printed


def travelled(name: str) -> Travel | str:
    """Returns the trace of a flow, or the reason why it cannot run here; for a process of its own."""
    logging.disable(logging.WARNING)
    calls_before, tracer = -1, Tracer()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        redirect_stdout(StringIO()),
        redirect_stderr(StringIO()),
    ):
        try:
            for run, _ in zip(FLOWS[name](Path(folder)), range(MAX_WARM_UPS), strict=False):
                travel = tracer.follow(run)
                if name in FRESH or len(travel.calls) == calls_before:
                    return travel
                calls_before = len(travel.calls)
        except ImportError as error:
            return str(error)
    raise RuntimeError(f"{name}: no two runs of {MAX_WARM_UPS} in a row took as many calls")


def counts_of(travel: Travel | str) -> dict[str, Any]:
    return {"skipped": travel} if isinstance(travel, str) else asdict(Count.of(travel))


def row(name: str, travel: Travel | str) -> str:
    """A line of the table."""
    if isinstance(travel, str):
        return f"| {name} | skipped: {travel} | | | | | |"
    cells = ["" if value is None else f"{value:,}" for value in counts_of(travel).values()]
    return f"| {' | '.join([name, *cells])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="How far one unit of work travels through the package.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--path", choices=FLOWS, help="list the calls of one flow")
    options = parser.parse_args()
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, fresh, max_tasks_per_child=1) as pool:
        names = [options.path] if options.path else list(FLOWS)
        travels = dict(zip(names, pool.map(travelled, names), strict=True))
    if options.path:
        travel = travels[options.path]
        print(travel if isinstance(travel, str) else "\n".join(" ".join(call) for call in travel.calls))
    elif options.json:
        print(json.dumps({name: counts_of(travel) for name, travel in travels.items()}))
    else:
        print("| flow | files | functions | calls | changes of file | conversions of the arguments | loaded modules |")
        print("|---|---|---|---|---|---|---|")
        print("\n".join(row(name, travel) for name, travel in travels.items()))


if __name__ == "__main__":
    main()
