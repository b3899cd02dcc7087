"""The speed of verifying workflow graphs: `python benchmarks/verify.py [ROUNDS]`, and `... verify.py million`.

The graphs are a chain with as many random edges again, kinds drawn at random, and have findings of every sort: dead
ends, routers whose edges have no condition, tool nodes that declare nothing, sensitive tools that no person guards.
Beside it, in the same run and on the same graphs, the package `agentproofx`, where it is installed; what both look for,
both have to find. Times are medians of CPU time; of the other side at 50,000 nodes, one run.

`million` verifies a graph of a million nodes and two million edges from its JSON, in a process of its own.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from guardagent.policy.load import compile_rules
from guardagent.workflow.analysis.checks import structural_findings
from guardagent.workflow.analysis.proofs import rule_results
from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.model.graph import Edge, EdgeKind, Graph, Node, NodeKind
from guardagent.workflow.verify import verify

SEED = 6
KINDS: list[NodeKind] = ["tool", "tool", "llm", "router", "subgraph", "passthrough", "human"]
EDGES: list[EdgeKind] = ["conditional", "conditional", "direct", "loop", "parallel"]
TOOLS = [f"tool_{number}" for number in range(20)]
SENSITIVE = TOOLS[:4]
PROCEDURES = [
    ["draft_email", "human_review", "send_email"],
    ["fetch_pii", "count_rows", "anonymize"],
    ["plan", "approve", "deploy"],
]
KEPT = [  # on every path: nothing comes between the steps of a procedure, and no path leads to `delete_account`
    "G !tool:delete_account",
    "tool:draft_email -> F tool:human_review",
    "tool:fetch_pii -> F[<=3] tool:anonymize",
    "tool:plan -> F tool:approve -> F tool:deploy",
    "(tool:draft_email -> F tool:send_email) AND (G !tool:delete_account)",
]
BROKEN = ["G !tool:tool_7", "tool:tool_1 -> F tool:tool_2", "tool:tool_3 -> F[<=3] tool:tool_4"]
WANTED = {5_000: 20, 50_000: 200}
WANTED_OF_RULES, WANTED_GROWTH, WANTED_SECONDS, WANTED_GIGABYTES = 40, 14, 25, 4

Run = Callable[[], Any]
Found = set[tuple[str, str]]  # (check, node)


# --- graphs


def workflow(size: int) -> Graph:
    """A made-up workflow. Its last node is the exit; the one before that calls `delete_account`, and is not reached."""
    chance = random.Random(SEED)  # noqa: S311 - the same graph every time
    nodes, inside = _nodes(chance, size)
    last, unreached = size - 1, size - 2
    dead = set(chance.sample([at for at in range(1, unreached) if at not in inside], size // 100))
    edges = [_edge(chance, at, at + 1 if at + 1 != unreached else last) for at in range(last) if at not in dead]
    while len(edges) < 2 * size:
        source, target = chance.randrange(unreached), chance.randrange(1, size)
        if source not in dead and source not in inside and target != unreached:
            edges.append(_edge(chance, source, target))
    return Graph("made", "json", "n0", (f"n{last}",), tuple(nodes), tuple(edges))


def _nodes(chance: random.Random, size: int) -> tuple[list[Node], set[int]]:
    """The nodes, and the numbers of those inside of a procedure, from which only its next step follows."""
    nodes, inside = [Node("n0", "entry")], set[int]()
    while len(nodes) < size - 2:
        if chance.random() < 0.02 and len(nodes) < size - 5:
            inside |= {len(nodes), len(nodes) + 1}
            for tool in chance.choice(PROCEDURES):
                nodes.append(Node(f"n{len(nodes)}", "tool", tools=(tool,)))
        else:
            kind = chance.choice(KINDS)
            several = chance.choice([1, 1, 1, 2, 3]) if kind == "tool" and chance.random() < 0.98 else 0
            nodes.append(Node(f"n{len(nodes)}", kind, tools=tuple(chance.sample(TOOLS, several))))
    ends = [Node(f"n{size - 2}", "tool", tools=("delete_account",)), Node(f"n{size - 1}", "exit")]
    return nodes + ends, inside


def _edge(chance: random.Random, source: int, target: int) -> Edge:
    return Edge(f"n{source}", f"n{target}", chance.choice(EDGES))


# --- what is measured


def checked(graph: Graph) -> list[GraphFinding]:
    return structural_findings(graph, require_human=True, sensitive_tools=SENSITIVE)


def first_read(graph: Graph) -> list[GraphFinding]:
    """Reads the first witness of each check."""
    findings = checked(graph)
    for finding in {finding.check: finding for finding in reversed(findings)}.values():
        len(finding.witness)
    return findings


def all_read(graph: Graph) -> list[dict[str, Any]]:
    return [finding.to_dict() for finding in checked(graph)]


def theirs(name: str) -> Any:
    """A module of `agentproofx`; None if it is not installed."""
    try:
        return import_module(f"agentproof.{name}")
    except ImportError:
        return None


def checked_by_them(graph: Any) -> Any:
    return theirs("verify").run_structural_checks(graph, require_human=True, sensitive_tools=set(SENSITIVE))


def product_by_them(graph: Any, rules: Iterable[Any]) -> list[bool]:
    return [theirs("verify").check_temporal_property(graph, rule)["violated"] for rule in rules]


def found_by_us(findings: Iterable[GraphFinding]) -> Found:
    return {(finding.check, finding.node or "") for finding in findings}


def found_by_them(report: Any) -> Found:
    """The findings of agentproofx under our names."""
    checks = {check["check_id"]: check for check in report["checks"]}
    nodes = {
        "exit_reachability": checks["exit_reachability"]["missing_exits"],
        "reverse_reachability": checks["reverse_reachability"]["livelock_nodes"],
        "dead_ends": checks["dead_ends"]["dead_ends"],
        "router_shape": [violation["router"] for violation in checks["router_shape"]["violations"]],
        "human_coverage": checks["human_gate_coverage"]["ungated_tools"],
        "tool_declarations": checks["tool_declarations"]["tool_nodes_missing_tools"],
    }
    return {(check, node) for check, found_nodes in nodes.items() for node in found_nodes}


def cpu(run: Run, rounds: int) -> tuple[float, Any]:
    """(median CPU seconds, result)."""
    times, result = [], None
    for _ in range(rounds):
        result = None  # so that what it gave before is not thrown away within the time
        started = time.process_time()
        result = run()
        times.append(time.process_time() - started)
    return statistics.median(times), result


# --- tables


def line(what: str, seconds: float, other: float | None = None, wanted: float | None = None) -> None:
    compared = "" if other is None else f"  {other / seconds:8.1f} times less"
    print(f"  {what:48} {seconds * 1000:12,.1f} ms{compared}{f' (wanted: {wanted})' if wanted else ''}")


def structural(size: int, rounds: int) -> float:
    """Our time with every witness read."""
    graph, other = workflow(size), None
    seconds, findings = cpu(lambda: checked(graph), rounds)
    print(f"structural checks: {size:,} nodes, {len(graph.edges):,} edges, {len(findings):,} findings")
    if model := theirs("graph.model"):
        their_graph = model.graph_from_dict(graph.to_dict())
        other, report = cpu(lambda: checked_by_them(their_graph), 3 if size < 10_000 else 1)
        assert found_by_them(report) == found_by_us(findings), "they disagree"
        line(f"agentproofx {metadata.version('agentproofx')}", other)
    line("all findings", seconds, other, WANTED[size])
    line("all findings, the first witness of each check read", cpu(lambda: first_read(graph), rounds)[0], other)
    seconds, _ = cpu(lambda: all_read(graph), rounds)
    line("all findings, every witness read", seconds, other, WANTED[size])
    return seconds


def rules(size: int, texts: Sequence[str], rounds: int, wanted: int | None) -> None:
    graph, policies, other = workflow(size), compile_rules(texts), None
    seconds, results = cpu(lambda: list(rule_results(graph, policies)), rounds)
    violated = [rule_result.status == "violated" for rule_result in results]
    print(f"product: {size:,} nodes, {len(texts)} rules, {sum(violated)} of them violated")
    if model := theirs("graph.model"):
        ltl = theirs("monitor.ltl")
        compiled = [ltl.compile_monitor_rule(ltl.MonitorRuleSpec(text, text)) for text in texts]
        their_graph = model.graph_from_dict(graph.to_dict())
        other, their_violated = cpu(lambda: product_by_them(their_graph, compiled), 3)
        assert their_violated == violated, "they disagree"
        line(f"agentproofx {metadata.version('agentproofx')}", other)
    line("every rule, witnesses read", seconds, other, wanted)


def million() -> None:
    """A million nodes from their JSON, as a user would have them verified."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.json"
        subprocess.run([sys.executable, __file__, "write", str(path)], check=True)  # noqa: S603 - this very file
        subprocess.run([sys.executable, __file__, "read", str(path)], check=True)  # noqa: S603


def write(path: Path) -> None:
    with path.open("w") as file:
        json.dump(workflow(1_000_000).to_dict(), file)


def read(path: Path) -> None:
    started = time.process_time()
    report = verify(path, require_human=True, sensitive_tools=SENSITIVE)
    seconds = time.process_time() - started
    print(
        f"from JSON: {len(report.graph.nodes):,} nodes, {len(report.graph.edges):,} edges, "
        f"{path.stat().st_size:,} bytes"
    )
    report_time(seconds, f"read and checked, {len(report.findings):,} findings")
    json.dumps(report.to_dict())
    report_time(time.process_time() - started, "the report as JSON too, every witness read")


def report_time(seconds: float, what: str) -> None:
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
    wanted = f"(wanted: {WANTED_SECONDS} s, {WANTED_GIGABYTES} GB)"
    print(f"  {what:48} {seconds:8.1f} s of CPU time, {gigabytes:.1f} GB {wanted}")


def main() -> None:
    match sys.argv[1:]:
        case ["million"]:
            return million()
        case ["write", path]:
            return write(Path(path))
        case ["read", path]:
            return read(Path(path))
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    if theirs("api") is None:
        print("agentproofx is not installed, so there is nothing to compare with: pip install agentproofx")
    small, large = structural(5_000, rounds), structural(50_000, rounds)
    print(f"50,000 nodes cost {large / small:.1f} times 5,000 (wanted: {WANTED_GROWTH})")
    rules(5_000, KEPT, rounds, WANTED_OF_RULES)
    rules(5_000, BROKEN, rounds, None)
    return None


if __name__ == "__main__":
    main()
