"""Traces that are acquitted by columns have the verdicts of sessions, and most of those that keep the rules are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import reduce
from operator import add
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from guardagent._support.syntax import compile_pattern
from guardagent.batch.acquittal import acquittal
from guardagent.batch.arrow.columns import acquitted, trace_blocks
from guardagent.batch.arrow.judge import judge, judge_by_sessions, replayed, replayed_by_sessions
from guardagent.batch.arrow.schema import EVENTS
from guardagent.batch.audit import NO_ASSUMPTIONS, Assumptions
from guardagent.batch.replay.conversation import ReplayPolicy
from guardagent.errors import InputError
from guardagent.policy.evaluation.operands import CompileError
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.load import compile_rules
from guardagent.policy.policies import Policies
from tests.policy.data_cases import FUNCTIONS, TAGS, Changed, Maker
from tests.policy.naive_data import Step
from tests.properties.test_replayed_traces import TEMPORAL
from tests.tiers import slow_after

RUNS, PAIRS = 16, 250
RULES = [
    *TEMPORAL,
    "tool:pay U tool:get",
    "forall(pay(id=x, n=n), n <= 3)",
    'forall(pay(id=x), x != "a" || fact(role) == "admin")',
    'before(pay(id=x), True, f:get(id=x), output(f) != "bad")',
    "before(refund(id=x, n=n), n > 2, f:pay(id=x, n=n), True)",
    "forall(pay(), count(f:pay(), !failed(f)) < 2)",
    "forall(pay(id=x), count(f:pay(id=x), args(f).n > 1) + 1 <= 2)",
    "forall(pay(id=x, n=n), sum(f:pay(id=x), !failed(f), args(f).n) + n <= 5)",
    "forall(refund(n=n), sum(f:pay(), True, args(f).n) >= n)",
    'after(pay(id=x), args(a).n != 2, f:note(id=x), output(f) != "bad")'.replace("pay(", "a:pay("),
    'exists(get(id=x), x != "b")',
    'NOT exists(refund(id=x), x == "c")',
    "(forall(pay(n=n), n < 2)) OR (exists(note(), True))",
    "forall(pay(), all(x in args(a).list, x > 0))".replace("pay(", "a:pay("),
]  # fmt: skip
TOOLS = ["pay", "get", "refund", "note", "search"]


def policies_of(chance: Random, maker: Maker) -> tuple[Policies, list[str]]:
    """Some rules that columns can express, and some random ones."""
    while True:
        rules = chance.sample(RULES, chance.randrange(1, 4)) + [maker.rule() for _ in range(chance.randrange(2))]
        pattern = chance.choice([None, "^bad", "b.*d"])
        try:
            policies = compile_rules(rules, functions=FUNCTIONS, tags=TAGS)
        except (CompileError, TemporalError):
            continue
        policies.failed_output = pattern and compile_pattern(pattern)
        return policies, rules


def value(chance: Random) -> Any:
    usual = ["a", "b", "c", 1, 2, 3, 1.0, 1.5]
    rare = [None, True, "1", 10**20, 2**53 + 1, 0.1, -0.0, ["a"], [1, 2], {"k": 1}, "\u00e9", "A", 'say ":', "\ud800"]
    return chance.choice(usual if chance.random() < 0.95 else rare)


def text(chance: Random, content: Any) -> str:
    """JSON, which now and then is not what readers expect."""
    json_text = json.dumps(content, ensure_ascii=chance.random() < 0.5 or "ud800" in repr(content))
    if chance.random() < 0.99:
        return json_text
    odd = [
        '{"id": "a", "id": "b"}',
        "{",
        " " + json_text,
        json_text + "\n",
        "1 2",
        "null",
        "NaN",
        '{"k": {"j": 1, "j": 1}}',
    ]
    return chance.choice([*odd, "[" * 300 + "]" * 300, '{"n": 1e999}', '{"a" : 1}', '"x" "y"'])


def row(chance: Random, tool: str | None, at: int) -> dict[str, Any]:
    args = {name: value(chance) for name in ("id", "n", "list") if chance.random() < 0.9}
    output = chance.choice(["ok", "bad", {"k": 1}, {"k": "bad"}, None, 1])
    values: dict[str, Any] = {"tool": tool, "args": text(chance, args), "output": text(chance, output)}
    unusual: dict[str, Any] = {
        "args": None, "output": None, "failed": chance.random() < 0.5, "tags": ["urgent"], "action": "x", "state": "{}",
        "facts": '{"role": "admin"}', "trace_facts": chance.choice(['{"role": "admin"}', '{"role":"guest"}', "[]"]),
        "task": "t", "success": True, "time": chance.choice([1.0, 2.0, -1.0]), "error": "unreadable",
        "principal": '{"id": "A"}', "position": 1, "tool": None,
    }  # fmt: skip
    chosen = {name: other for name, other in unusual.items() if chance.random() < (0.1 if name == "failed" else 0.01)}
    return {**values, **chosen, "source": "f" if chance.random() < 0.99 else "g", "row": at}


def small_trace(chance: Random) -> list[dict[str, Any]]:
    rows = [row(chance, chance.choice(TOOLS), at) for at in range(chance.randrange(1, 9))]
    shared: dict[str, Any] = {
        "trace_facts": '{"role": "admin"}',
        "principal": '{"id": "A"}',
        "task": "t",
        "success": False,
    }
    for name, content in shared.items():
        if chance.random() < 0.2:
            rows = [{name: content, **values} for values in rows]
    numbers = list(range(len(rows)))
    if chance.random() < 0.5:
        chance.shuffle(numbers)
        key = chance.choice(["position", "time"])
        rows = [{key: number, **values} for number, values in zip(numbers, rows, strict=True)]
    return rows


def made_trace(chance: Random, maker: Maker, rules: list[str]) -> Iterator[dict[str, Any]]:
    """A trace of the values that random rules mention."""
    state = None
    for at, move in enumerate(maker.case(" ".join(rules)).moves):
        if isinstance(move, Changed):
            state = json.dumps(move.state, default=str)
        elif isinstance(move, Step):
            failed = {"ok": False, "failed": True}.get(move.status or "")
            args, output = (json.dumps(part, default=str) for part in (move.args, move.output))
            yield {
                "tool": move.tool,
                "args": args,
                "output": output,
                "failed": failed,
                "state": state,
                "source": "f",
                "row": at,
            }


def record_of(chance: Random, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of a whole trace with the events of some rows."""
    names = ["tool", "args", "output", "failed", "tags", "action", "facts", "state", "time"]
    json_columns = ("args", "output", "facts", "state")
    more = {"latency": "1.5", "meta": '{"a": 1}', "Tool": '"pay"'}
    events = []
    for values in rows:
        present = [name for name in names if values.get(name) is not None]
        members = {name: values[name] if name in json_columns else json.dumps(values[name]) for name in present}
        events.append(joined(members | {name: more[name] for name in more if chance.random() < 0.02}))
    parts = {"id": '"t"', "events": f"[{', '.join(events)}]"}
    others = {"facts": '{"role": "admin"}', "task": '"t"', "version": "1"}
    return {
        "record": joined(parts | {name: part for name, part in others.items() if chance.random() < 0.2}),
        "source": "f",
        "row": 0,
    }


def joined(members: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {part}" for name, part in members.items()) + "}"


def log_of(chance: Random, maker: Maker, rules: list[str]) -> pa.Table:
    traces = [small_trace(chance) for _ in range(30)] + [list(made_trace(chance, maker, rules)) for _ in range(2)]
    traces = [[record_of(chance, trace)] if chance.random() < 0.4 and trace else trace for trace in traces]
    rows = [{"trace": f"t{number:02}", **values} for number, trace in enumerate(traces) for values in trace]
    return pa.Table.from_pylist(rows, schema=EVENTS)


def assumptions_of(chance: Random) -> Assumptions:
    return chance.choice([NO_ASSUMPTIONS, NO_ASSUMPTIONS, Assumptions(ok=True), Assumptions(facts={"role": "admin"})])


@pytest.mark.parametrize("run", slow_after(1, range(RUNS)))
def test_tables_have_the_verdicts_of_sessions(run: int) -> None:
    """Row for row; 10,000 pairs of a policy and a log in all."""
    kept = allowed = 0
    for seed in range(run * PAIRS, run * PAIRS + (PAIRS if run else 12)):
        chance, maker = Random(seed), Maker(seed)  # noqa: S311 - a fixed seed
        policies, rules = policies_of(chance, maker)
        batches, assumptions = log_of(chance, maker, rules).to_batches(), assumptions_of(chance)
        expected = rows_of(judge_by_sessions(batches, policies, assumptions))
        assert rows_of(judge(batches, policies, assumptions)) == expected, (seed, rules)
        proof = acquittal(policies)
        if proof.is_possible:
            kept += sum(
                acquitted(block, proof, policies.failed_output, assumptions)[0].sum() for block in trace_blocks(batches)
            )
            allowed += sum(verdict["decision"] == "allow" for verdict in expected)
    assert kept > 0.6 * allowed > 10, (kept, allowed)


@pytest.mark.parametrize("run", slow_after(1, range(8)))
def test_replays_over_tables_have_the_differences_of_sessions(run: int) -> None:
    acquitted_traces = 0
    for seed in range(run * PAIRS, run * PAIRS + (PAIRS if run else 12)):
        chance, maker = Random(seed), Maker(seed)  # noqa: S311 - a fixed seed
        (old, rules), (new, _) = policies_of(chance, maker), policies_of(chance, maker)
        batches, policies = log_of(chance, maker, rules).to_batches(), [ReplayPolicy(old), ReplayPolicy(new)]
        by_columns, by_sessions = (list(replay(policies, batches)) for replay in (replayed, replayed_by_sessions))
        assert rows_of(rows for rows, _ in by_columns) == rows_of(rows for rows, _ in by_sessions), (seed, rules)
        columns, sessions = (reduce(add, [summary for _, summary in part]) for part in (by_columns, by_sessions))
        assert columns.to_dict() == sessions.to_dict(), (seed, rules)
        acquitted_traces += by_columns[0][1].traces if len(by_columns) > 1 else 0
    assert acquitted_traces > 10


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [{name: value for name, value in row.items() if name != "elapsed_ms"} for row in rows]


def test_rows_of_a_trace_have_to_be_adjacent() -> None:
    rows = [{"trace": trace, "tool": "search"} for trace in ("a", "b", "a")]
    with pytest.raises(InputError, match="not adjacent"):
        list(judge([pa.RecordBatch.from_pylist(rows, schema=EVENTS)], compile_rules(["G !tool:pay"])))
