"""The tables of docs/language.md: every form in them can be written, and means what the table says."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from guardagent import Event, InputError, Policies, load_policies
from guardagent.policy.load import compile_rules
from guardagent.policy.provenance.readers import DeclaredLabels, LabelSource
from guardagent.session.counters import new_counters

PAGE = Path(__file__).parents[2] / "docs" / "language.md"
TABLE = re.compile(r"^\|.*\n\|---.*\n(?:\|.*\n)+", re.MULTILINE)
BETWEEN = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"`([^`]+)`")
CALL = {"n": 3, "s": "abc", "xs": [1, 2, 3], "m": {"a": 1, "b": None}}  # as the page says
NAMES: dict[str, Any] = {
    "tags": {"writes": frozenset({"put"})},
    "functions": {"owner": lambda state, order_id: state[order_id]},
    "sources": DeclaredLabels(dict.fromkeys(("user", "untrusted", "private"), (LabelSource.read("get_webpage"),))),
}


def rows(first: str, columns: int) -> list[list[str]]:
    """Returns the rows of the tables with this first column and this number of columns."""
    tables = [[cells(line) for line in table.splitlines()] for table in TABLE.findall(PAGE.read_text(encoding="utf-8"))]
    rows = [row for head, _, *lines in tables if (head[0], len(head)) == (first, columns) for row in lines]
    assert rows, first
    return rows


def cells(line: str) -> list[str]:
    return [cell.strip().replace(r"\|", "|") for cell in BETWEEN.split(line)[1:-1]]


def codes(cell: str) -> list[str]:
    return CODE.findall(cell)


def rule(text: str) -> Policies:
    return compile_rules([text], **NAMES)


def kept(text: str, trace: str) -> bool:
    """Whether every step of a conversation, and its end, is allowed."""
    session = rule(text).session()
    for step in trace.split():
        names, _, failed = step.partition(":")
        verdict = session.check("step", tags=set(names.replace("-", "").split("+")) - {""})
        if verdict.label:
            return False
        session.record(failed=bool(failed), permit=verdict.permit)
    return session.finish().label == 0


TRACES = [row for first in ("form", "operator") for row in rows(first, 4)]


@pytest.mark.parametrize("row", TRACES, ids=lambda row: row[0])
def test_a_rule_tells_conversations_apart(row: list[str]) -> None:
    """The row's conversations satisfy and violate the rule as the table says."""
    (text,) = codes(row[0])
    assert [trace for trace in codes(row[2]) if not kept(text, trace)] == []
    assert [trace for trace in codes(row[3]) if kept(text, trace)] == []


@pytest.mark.parametrize("row", rows("condition", 3), ids=lambda row: row[0])
def test_a_condition_is_true_false_or_unknown(row: list[str]) -> None:
    """Its value for the call on the page is the one in the table."""
    bound = ", ".join(f"{name}={name}" for name in CALL)
    verdict = rule(f"forall(t({bound}), {codes(row[0])[0]})").session().check("t", CALL)
    truth = "unknown" if verdict.errors else "false" if verdict.rules else "true"
    assert truth == row[1]


TEXT = '{"x": 1, "x": 2}'
LACKING: tuple[dict[str, Any], ...] = (
    {"m": {}},
    {"m": {"x": None}, "x": None},
    {"m": TEXT, "x": TEXT},
)  # as the page says


def lacking(text: str, args: dict[str, Any]) -> str:
    """The decision on a call whose argument or field is absent, null or unreadable."""
    counters = {"counters": {"calls": {"on": "t(x=x)", "key": "x"}}} if "counter(" in text else {}
    names = {"labels": {"private": "get"}, **counters}
    data = {"version": 1, **names, "policies": [{"id": "a", "temporal": text}]}
    policies = load_policies(data=data)
    session = policies.session(
        facts={"x": args.get("x")} if args["m"] != TEXT else {},
        state={},
        principal={"id": "a"},
        counters=new_counters(policies),
    )
    session.observe(Event("get", args, args["m"], "ok"), judge=False)
    verdict = session.check("t", args)
    return "unknown" if verdict.errors else "deny" if verdict.rules else "allow"


@pytest.mark.parametrize("row", rows("condition on a value", 4), ids=lambda row: row[0][:60])
def test_a_condition_on_what_is_lacking(row: list[str]) -> None:
    """Its value for an absent, a null and an unreadable value is the one in the table."""
    truths = {"allow": "true", "deny": "false", "unknown": "unknown"}
    for condition in codes(row[0]):
        decisions = [truths[lacking(f"forall(t(m=m, x=x), {condition})", args)] for args in LACKING]
        assert decisions == row[1:], condition


@pytest.mark.parametrize("row", rows("rule about calls", 4), ids=lambda row: row[0][:60])
def test_a_rule_about_what_is_lacking(row: list[str]) -> None:
    """Its decision on an absent, a null and an unreadable value is the one in the table."""
    assert [[lacking(text, args) for args in LACKING] for text in codes(row[0])] == [row[1:]] * len(codes(row[0]))


@pytest.mark.parametrize("row", rows("condition at noon", 3), ids=lambda row: row[0])
def test_a_condition_on_the_time_is_true_false_or_unknown(row: list[str]) -> None:
    """Its value at noon, with the calls on the page, is the one in the table."""
    noon = dt.datetime(2026, 1, 31, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    session = rule(f"forall(t(), {codes(row[0])[0]})").session(clock=lambda: noon)
    session.observe(Event("pay", {"amount": 50}, "paid", "ok", time=noon - dt.timedelta(days=1)))
    session.observe(Event("note"))
    verdict = session.check("t")
    assert row[1] == ("unknown" if verdict.errors else "false" if verdict.rules else "true")


@pytest.mark.parametrize(
    ("first", "columns", "around"),
    [
        ("form", 2, ["{}"]),
        ("atom", 2, ["G !{}"]),
        ("pattern", 2, ["forall({}, true)"]),
        ("term", 2, ["forall(x(to=t, order_id=o), known({}))", "before(x(), true, f:y(), known({}))"]),
    ],
)
def test_every_form_in_the_tables_is_valid(first: str, columns: int, around: list[str]) -> None:
    """This covers every form, atom, pattern and term."""
    for row in rows(first, columns):
        for text in codes(row[0]):
            assert any(loads(form.format(text)) for form in around), text


def loads(text: str) -> bool:
    try:
        rule(text)
    except InputError:
        return False
    return True
