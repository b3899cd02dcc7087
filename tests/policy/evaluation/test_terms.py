"""Conditions over the history and over items: what is unknown stays with the call or the item that it is about."""

from __future__ import annotations

import pytest

from guardagent.errors import InputError
from guardagent.policy.load import compile_rules
from guardagent.session.session import Session
from guardagent.types import Event, Verdict

GOOD, BAD, BROKEN = {"ok": True, "xs": ["a"]}, {"ok": False, "xs": ["b"]}, "error 500"
SOME = "forall(pay(id=i), some(f:get(id=i), output(f).ok == true))"
LISTED = "forall(p:pay(), some(f:get(), any(x in output(f).xs, x == args(p).id)))"
TWICE = "forall(p:pay(), some(f:get(), some(g:get(), output(g).ok == output(f).ok && output(f).ok)))"


def session_after(rule: str, *outputs: object) -> Session:
    session = compile_rules([rule]).session()
    for output in outputs:
        session.observe(Event("get", {"id": "a"}, output, "ok"), judge=False)
    return session


def result(verdict: Verdict) -> str:
    assert verdict.label == bool(verdict.rules or verdict.errors)
    return "unknown" if verdict.errors else "denied" if verdict.rules else "allowed"


def judged(rule: str, *outputs: object, **args: object) -> str:
    return result(session_after(rule, *outputs).check("pay", args or {"id": "a"}))


@pytest.mark.parametrize(
    ("rule", "outputs", "expected"),
    [
        (SOME, [GOOD], "allowed"),
        (SOME, [BROKEN, GOOD, BROKEN], "allowed"),
        (SOME, [BAD], "denied"),
        (SOME, [], "denied"),
        (SOME, [BAD, BROKEN], "unknown"),
        (SOME.replace("some", "!some"), [BAD], "allowed"),
        (SOME.replace("some", "!some"), [BROKEN], "unknown"),
        (SOME.replace("some", "!some"), [GOOD, BROKEN], "denied"),
        (LISTED, [BROKEN, {"xs": 5}, GOOD], "allowed"),
        (LISTED, [{"xs": 5}, BAD], "unknown"),
        (TWICE, [GOOD], "allowed"),
        ("forall(pay(), count(f:get(), output(f).ok == true) < 2)", [BROKEN, GOOD], "unknown"),
        ("forall(pay(), count(f:get(), output(f).ok == true) < 3)", [BROKEN, GOOD], "allowed"),
        ("forall(pay(), count(f:get(), output(f).ok == true) < 1)", [BROKEN, GOOD], "denied"),
        ("forall(pay(), count(f:get(), any(x in output(f).xs, x == 'a')) >= 1)", [{"xs": 5}, GOOD], "allowed"),
        ("forall(pay(), sum(f:get(), output(f).ok == true, 5) <= 10)", [BROKEN, GOOD], "allowed"),
        ("forall(pay(), sum(f:get(), output(f).ok == true, 5) <= 5)", [BROKEN, GOOD], "unknown"),
        ("forall(pay(), sum(f:get(), output(f).ok == true, 5) < 5)", [BROKEN, GOOD], "denied"),
        ("forall(pay(), sum(f:get(), true, output(f).n) < 5)", [BROKEN, {"n": 1}], "unknown"),
        ("forall(pay(), output(first(f:get(), output(f).ok == true)).ok)", [BROKEN, GOOD], "unknown"),
        ("forall(pay(), count(x in [1, 2, 3], x == 1 || x > args(last(get())).n) <= 3)", [GOOD], "allowed"),
        ("forall(pay(), count(x in [1, 2, 3], x == 1 || x > args(last(get())).n) <= 2)", [GOOD], "unknown"),
        ("forall(pay(), count(x in [1, 2, 3], x == 1 || x > args(last(get())).n) < 1)", [GOOD], "denied"),
    ],
)
def test_one_failed_lookup_leaves_the_rest_known(rule: str, outputs: list[object], expected: str) -> None:
    """A count and a sum have bounds, and one call that fits is enough."""
    assert judged(rule, *outputs) == expected


OPTIONAL = ('!known(a.id) || a.id == "mine"', '!has(a, "id") || a.id == "mine"', '!known(a["id"]) || a["id"] == "mine"')
LOOSE = [  # texts that some tool reads, with an id of somebody else
    '{"id": "mine", "id": "x"}',
    '{"id": "x", "n": NaN}',
    '{"id": "x", "n": -Infinity}',
    '{"id": "x",}',
    '\ufeff{"id": "x"}',
    '{"id": "x", "note": "a\nb"}',
    f'{{"id": "x", "n": {"1" * 5000}}}',
    f'{{"id": "x", "n": {"[" * 100_000}{"]" * 100_000}}}',
    "{'id': 'x'}",
    '{id: "x"}',
    '{"id": "x"} // note',
    '{"id": "x"}{}',
    '"{\\"id\\": \\"x\\"}"',
    "id=x",
    "",
]


@pytest.mark.parametrize("condition", OPTIONAL)
@pytest.mark.parametrize("text", LOOSE, ids=lambda text: text[:30])
def test_a_text_that_tools_read_differently_lacks_no_field(condition: str, text: str) -> None:
    """The condition is unknown, and so is its negation; the field is not absent."""
    for rule in (f"forall(pay(a=a), {condition})", f"forall(pay(a=a), !({condition}))"):
        assert judged(rule, a=text) == "unknown"


@pytest.mark.parametrize("condition", OPTIONAL)
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, "allowed"),
        ({"id": "mine"}, "allowed"),
        ({"id": "x"}, "denied"),
        ({"other": {"id": "x"}}, "allowed"),
        ("{}", "allowed"),
        (' {"n": 1.5e3, "t": "\\u00e9\\n"}\r\n', "allowed"),
        ('{"id": "mine", "n": [1, {"id": "x"}]}', "allowed"),
        ('{"id": "x"}', "denied"),
        ('{"\\u0069d": "x"}', "denied"),
    ],
)
def test_an_optional_field_may_be_left_out(condition: str, value: object, expected: str) -> None:
    """Of a mapping, and of a text that contains one as exact JSON."""
    assert judged(f"forall(pay(a=a), {condition})", a=value) == expected


@pytest.mark.parametrize("value", [None, [{"id": "x"}], 5, "[]", '[{"id": "x"}]', "null", "7"])
def test_only_a_mapping_lacks_a_key(value: object) -> None:
    """A list that holds a mapping may be read as one."""
    assert judged('forall(pay(a=a), !has(a, "id"))', a=value) == "unknown"


@pytest.mark.parametrize(
    "term", ["a.b.c", "a.b == 1", "keys(a)", "values(a)[0]", "all(x in a.xs, x == 1)", "len(a.b) + 1", "b || a.c == 1"]
)
def test_known_is_unknown_of_all_that_reads_such_a_text(term: str) -> None:
    """Not of a field alone."""
    assert judged(f"forall(pay(a=a, b=b), !known({term}))", a='{"b": 1, "b": 2}') == "unknown"


def test_a_call_in_flight_may_fit() -> None:
    """Nothing relies on it, and nothing that it would forbid is allowed."""
    needs, forbids = "forall(pay(), some(get(), true))", "forall(pay(), !some(get(), true))"
    for rule, later in ((needs, "allowed"), (forbids, "denied")):
        session = compile_rules([rule]).session()
        permit = session.check("get").permit
        session.use(permit)
        assert session.check("pay", reserve=False).label == 1
        assert session.fork().check("pay", reserve=False).label == 1
        session.record("x", permit=permit)
        assert result(session.check("pay")) == later


def test_a_failed_call_does_not_fit() -> None:
    """As in `before`."""
    session = session_after(SOME)
    session.observe(Event("get", {"id": "a"}, GOOD, "failed"), judge=False)
    assert result(session.check("pay", {"id": "a"})) == "denied"


def test_a_missing_call_is_named_with_a_remedy() -> None:
    """The message says which call is needed, and the suggested call is one that the rules allow."""
    verdict = session_after(SOME).check("pay", {"id": "a"})
    assert verdict.violations[0].message == 'needed: an earlier call get(id="a") with its output.ok == true'
    assert verdict.violations[0].remedy == "call 'get(id=\"a\")' first"


@pytest.mark.parametrize("output", [{"a": 1}, {"b": 1}, ["a", 1], [["a"]], [{"a": 1}]])
def test_in_says_nothing_about_mappings_and_mixed_lists(output: object) -> None:
    """Neither the condition nor its negation allows a call; the message names what to write."""
    for rule in ("i in output(last(get()))", "!(i in output(last(get())))"):
        verdict = session_after(f"forall(pay(id=i), {rule})", output).check("pay", {"id": "a"})
        assert result(verdict) == "unknown"
        assert "mentions(value, x)" in verdict.errors[0]


@pytest.mark.parametrize("whole", ["args(p)", '["a", 1]', '[{"a"}]', '[i, {"a"}]', '["a", [i]]', '[i, "a", 1]'])
def test_in_that_can_never_be_known_is_an_error_at_load(whole: str) -> None:
    """A rule that would deny every call."""
    with pytest.raises(InputError, match=r"mentions\(value, x\)"):
        compile_rules([f"forall(p:pay(id=i), i in {whole})"])


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        ({"m": 1}, "args(pay).order.n is missing"),
        ({"n": None}, "args(pay).order.n is null"),
        ('{"n": 1, "n": 2}', "args(pay).order.n is unreadable: a string is not JSON, or a key appears twice in it"),
        ([], "args(pay).order.n is unknown: a list has no fields"),
    ],
)
def test_an_unknown_field_says_why(order: object, problem: str) -> None:
    """Missing, null and unreadable are three reasons."""
    verdict = compile_rules(["forall(p:pay(), args(p).order.n <= 5)"]).session().check("pay", {"order": order})
    assert problem in verdict.errors[0]
