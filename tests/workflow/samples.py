"""Sample graphs and reports: customer support, harmful names, and random ones."""

from __future__ import annotations

import random
from typing import Any

from guardagent.workflow.analysis.report import GraphFinding, Report, ReportListing, RuleResult
from guardagent.workflow.model.graph import EDGE_KINDS, END, NODE_KINDS, START, Graph, GraphBuilder, mark

HOSTILE = (
    "<script>document.title = 'gone'</script>",
    "</script><img src=x onerror=\"document.title='gone'\">",
    "' onmouseover='document.title=1",
    "]]><b>&amp;",
    '"]; click n0 "javascript:alert(1)"',
    '%%{init: {"theme": "dark"}}%%',
    "end",
    "::error file=x::y\n::set-output name=a::b",
    "\x1b[31mred\x07\u202egnp.exe",
    "\ud800 alone",
    'back\\slash\\" \\N',
    "{{ 7 * 7 }}{% raw %} {0}",
    "[text](javascript:alert(1))",
)


def support(**metadata: Any) -> Graph:
    """Returns a graph with every kind of node and edge, a gated tool, a cycle and an unreachable node."""
    builder = GraphBuilder("support", "langgraph")
    builder.node("classify", "llm", **metadata)
    builder.node("route", "router")
    builder.node("orders", "tool", tools=["query_orders", "log"], model_chooses=True)
    builder.node("refund", "tool", tools=["notify", "refund"], gated_tools=["refund"])
    builder.node("approve", "human", guess=True)
    builder.node("team", "subgraph", label="second level support", widened=mark("it is chosen at run time"))
    builder.node("retry", "passthrough")
    builder.node("orphan", "llm")
    builder.edge(START, "classify")
    builder.edge("classify", "route")
    builder.edge("route", "orders", "conditional", 'intent == "order"')
    builder.edge("route", "approve", "conditional", "amount > 100")
    builder.edge("route", "refund", "conditional", "amount <= 100")
    builder.edge("approve", "refund")
    builder.edge("orders", "retry", "conditional", "failed")
    builder.edge("retry", "orders", "loop")
    builder.edge("orders", "team", "parallel")
    builder.edge("orders", "orders", "loop", "again")
    for last in ("refund", "team", "orphan", "orders"):
        builder.edge(last, END)
    return builder.graph()


WAY = (START, "classify", "route", "refund")
ROUND = (START, "classify", "route", "orders", "retry", "orders")


def support_report(graph: Graph | None = None, target: str = "agents/support.py:graph") -> Report:
    """Returns a report with each kind of result."""
    findings = (
        GraphFinding("human_coverage", "refund", "error", "refund can call refund without a person", WAY),
        GraphFinding("exit_reachability", "orphan", "warning", "orphan cannot be reached", ("orphan",)),
        GraphFinding("dead_ends", "retry", "error", "retry leads nowhere", ROUND[:-1], "the platform stops it"),
        GraphFinding("human_presence", None, "note", "no human takes part", (START, "classify", "route")),
    )
    rules = (
        RuleResult("ask-first", "violated", "bad_prefix", WAY, (), "it is broken", ((), (), (), ("refund",))),
        RuleResult(
            "answer", "violated", "postponed_by_cycle", ROUND, ("retry", "orders"), "a cycle puts it off",
            ((), (), (), ("log",), (), ("log",)),
        ),
        RuleResult("no-drop", "proved", message="it holds on every path"),
        RuleResult("limit", "undecidable", message="it depends on data"),
    )  # fmt: skip
    return Report(target, graph or support(), findings, rules, ("the state is not typed",))


def alone(report: Report) -> ReportListing:
    """Returns the listing of a target with this workflow only."""
    return ReportListing(report.target, (report,), is_single=True)


def hostile() -> Graph:
    """Returns a graph whose names are harmful to some format."""
    builder = GraphBuilder(HOSTILE[0], HOSTILE[1])
    for index, name in enumerate(HOSTILE):
        kind = NODE_KINDS[2 + index % 6]
        gated = [name] if index % 2 else []
        builder.node(name, kind, label=f"{name}!", tools=[name], gated_tools=gated, file=f"{name}.py", line=index)
        builder.edge(START, name, EDGE_KINDS[index % 4], name)
        builder.edge(name, END)
    return builder.graph()


def hostile_report() -> Report:
    """Returns a report with harmful names everywhere."""
    findings = [GraphFinding("dead_ends", name, "error", name, (START, name)) for name in HOSTILE]
    excused = [GraphFinding("router_shape", name, "error", name, (START, name), name) for name in HOSTILE]
    rules = [RuleResult(name, "violated", "bad_prefix", (START, name), (), name, ((), (name,))) for name in HOSTILE]
    return Report(HOSTILE[0], hostile(), (*findings, *excused), tuple(rules), HOSTILE)


def any_graph(nodes: int, more: float, seed: int) -> Graph:
    """Draws a random graph with mostly forward edges, some back edges and an exit."""
    chance = random.Random(seed)  # noqa: S311 - the same graph every time is the point
    builder = GraphBuilder(f"any {nodes}", "test")
    names = [f"{chance.choice(('plan', 'send_refund', 'validateCustomerIdentity'))}_{index}" for index in range(nodes)]
    for name in names:
        tools = [f"tool_{chance.randrange(40)}" for _ in range(chance.randrange(9))]
        builder.node(name, chance.choice(NODE_KINDS[2:]), tools=tools, gated_tools=tools[:1])
    builder.edge(START, names[0])
    for index in range(1, nodes):
        builder.edge(names[chance.randrange(max(0, index - 6), index)], names[index], chance.choice(EDGE_KINDS))
    for _ in range(int(nodes * more)):
        builder.edge(chance.choice(names), chance.choice(names), "conditional", chance.choice(("", "needs review")))
    sources = {edge.source for edge in builder.graph().edges}
    for name in names:
        if name not in sources:
            builder.edge(name, END)
    return builder.graph()
