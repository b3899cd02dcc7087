"""The command `demo`: a policy at work before calls, on a graph and over a log; then finished runs of three agents."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardagent import Event, load_policies, verify
from guardagent._terminal import printable
from guardagent.cli.options import screen
from guardagent.guard import GuardAgent

if TYPE_CHECKING:
    from rich.console import Console

    from guardagent.policy.policies import Policies
    from guardagent.types import Verdict

POLICY = """\
version: 1
unlisted: deny
policies:
  - id: delivered
    temporal: before(refund(order=o), true, f:get_order(order=o), output(f).status == "delivered")
    message: Look the order up first; only a delivered order is refunded.
  - id: large
    temporal: forall(refund(amount=a), a <= 100)
    on_violation: escalate
    message: A person decides about a refund of more than 100.
"""
_GRAPH = {
    "name": "refunds",
    "entry_id": "__start__",
    "exit_ids": ["__end__"],
    "nodes": [
        {"id": "__start__", "kind": "entry"},
        {"id": "assistant", "kind": "router"},
        {"id": "look", "kind": "tool", "tools": ["get_order"]},
        {"id": "pay", "kind": "tool", "tools": ["refund"]},
        {"id": "__end__", "kind": "exit"},
    ],
    "edges": [
        {"source": "__start__", "target": "assistant"},
        {"source": "assistant", "target": "look", "kind": "conditional", "condition": "new"},
        {"source": "assistant", "target": "pay", "kind": "conditional", "condition": "known"},
        {"source": "look", "target": "pay"},
        {"source": "pay", "target": "__end__"},
    ],
}
_LOG: dict[str, list[tuple[str, dict[str, Any], Any]]] = {
    "monday": [
        ("get_order", {"order": "W1"}, {"status": "delivered"}),
        ("refund", {"order": "W1", "amount": 20}, "ok"),
    ],
    "tuesday": [("get_order", {"order": "W2"}, {"status": "sent"}), ("refund", {"order": "W2", "amount": 20}, "ok")],
}
_AGENTS = {
    "ehragent": "answers questions over health records",
    "seeact": "acts on websites",
    "csqa": "answers multiple-choice questions",
}
_NEXT = """\
next  guardagent init my-guard      a project with a rule, an agent and runs to try
      guardagent guard --agent ehragent --input INPUT.txt --output-log LOG.txt --show-code
      guardagent try POLICY         judges calls as you type them
      guardagent --help             every command"""


def demo() -> None:
    """Show a two-minute tour, offline: a policy before calls, on a graph and over a log, and runs of three agents."""
    console, policies = screen(), load_policies(text=POLICY)
    console.rule("A policy", align="left")
    console.print(POLICY, end="", style="cyan", markup=False, highlight=False)
    _show_calls(console, policies)
    _show_graph(console, policies)
    _show_log(console, policies)
    _show_runs(console)
    console.rule()
    console.print(_NEXT, markup=False, highlight=False)


def _line(console: Console, what: str, verdict: Verdict | None = None) -> None:
    outcome = "" if verdict is None else f"{verdict.decision}".upper()
    console.print(f"  {what:<58}{outcome}".rstrip(), markup=False, highlight=False, soft_wrap=True)
    for reason in verdict.reasons[:1] if verdict is not None and verdict.label else ():
        console.print(f"      {printable(reason)}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def _show_calls(console: Console, policies: Policies) -> None:
    console.rule("Before each call", align="left")
    session = policies.session()
    _line(console, "refund(order=W1, amount=20)", session.check("refund", {"order": "W1", "amount": 20}))
    lookup = session.check("get_order", {"order": "W1"})
    session.record({"status": "delivered"}, permit=lookup.permit)
    _line(console, "get_order(order=W1)", lookup)
    large = session.check("refund", {"order": "W1", "amount": 250})
    _line(console, "refund(order=W1, amount=250)", large)
    approved = session.approve(large)
    session.record("refunded", permit=approved.permit)
    _line(console, "a person approves it", approved)
    _line(console, "delete_order(order=W1)", session.check("delete_order", {"order": "W1"}))


def _show_graph(console: Console, policies: Policies) -> None:
    console.rule("Before deployment: verify reads the agent's graph", align="left")
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "graph.json"
        graph.write_text(json.dumps(_GRAPH), encoding="utf-8")
        report = verify(graph, policies, sensitive_tools=["refund"], require_human=True)
    for finding in report.findings[:2]:
        _line(console, f"{finding.check}: {finding.message}")
    for rule in report.rules:
        _line(console, f"rule {rule.id}: {rule.status} {' -> '.join(rule.witness)}".rstrip())


def _show_log(console: Console, policies: Policies) -> None:
    console.rule("Afterwards: audit judges the log", align="left")
    for conversation, calls in _LOG.items():
        session = policies.session()
        events = [Event(tool, args, output=output, status="ok") for tool, args, output in calls]
        verdicts = [session.observe(event) for event in events]
        _line(
            console,
            f"conversation of {conversation}: {', '.join(tool for tool, _, _ in calls)}",
            max(verdicts, key=lambda v: v.label),
        )


def _show_runs(console: Console) -> None:
    console.rule("Finished runs: guard judges what an agent did, without a model", align="left")
    for name, description in _AGENTS.items():
        guard = GuardAgent(agent=name, mode="program")
        assert guard.known_agent is not None
        runs = guard.known_agent.demonstrations
        verdicts = [guard.guard(run.agent_input, run.agent_output) for run in runs]
        for label in (0, 1):
            verdict = next(verdict for verdict in verdicts if verdict.label == label)
            _line(console, f"{name}, which {description}" if label == 0 else "another run of it", verdict)
