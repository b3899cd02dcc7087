"""Forms that stand for others: `let`, terms as arguments of a pattern, rows of tables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.policy.language import ast
from guardagent.policy.language.parser import read_rule
from guardagent.policy.lint import lint_report
from guardagent.policy.load import compile_rules, load_policies
from guardagent.policy.words import policies_in_words
from guardagent.session.session import Session
from guardagent.types import Event

PAIRS = """
forall(f:pay(), let o = args(f).x in o.n <= 5 && o.k == 1) ~ forall(f:pay(), args(f).x.n <= 5 && args(f).x.k == 1)
forall(f:pay(), let o = args(f) in let n = o.n in n < 5) ~ forall(f:pay(), args(f).n < 5)
forall(pay(n=x), let y = x + 1 in any(z in [1], y == z)) ~ forall(pay(n=x), any(z in [1], x + 1 == z))
forall(pay(n=x), let y = x in count(pay(n=y)) == 0) ~ forall(pay(n=x), count(pay(n=x)) == 0)
forall(pay(u=b), let y = [b] in some(get(u=b, m=y))) ~ forall(pay(u=b), some(get(u=b, m=z), z == [b]))
forall(f:pay(), count(pay(to=args(f).to)) < 2) ~ forall(f:pay(), count(pay(to=t), t == args(f).to) < 2)
forall(pay(to=principal.id, n=n), n < 5) ~ forall(pay(to=t, n=n), t == principal.id -> n < 5)
before(pay(id=i), true, get(owner=fact(a), id=i), true) ~ before(pay(id=i), true, get(owner=o, id=i), o == fact(a))
before(pay(n=fact(n)), true, f:get(), output(f) == 1) ~ before(pay(n=x), x == fact(n), f:get(), output(f) == 1)
after(f:open(), true, close(h=output(f).h), true) ~ after(f:open(), true, close(h=x), x == output(f).h)
exists(pay(to=fact(user))) ~ exists(pay(to=t), t == fact(user))
seq(get(id=fact(a)), pay(id=fact(a))) ~ before(pay(id=x), x == fact(a), get(id=y), y == fact(a))
forall(f:pay(), output(last(get(id=args(f).id))) == 1) ~ forall(f:pay(), output(last(get(id=x), x == args(f).id)) == 1)
forall(wait(s=90s), false) ~ forall(wait(s=s), s == 90 -> false)
""".strip().splitlines()


class Renamed(dict[str, str]):
    def __missing__(self, name: str) -> str:
        self[name] = f"v{len(self)}"
        return self[name]


def shape(node: Any, names: Renamed) -> Any:
    """A node with variables numbered by their first use, and without places."""
    if isinstance(node, tuple):
        return tuple(shape(part, names) for part in node)
    if not hasattr(node, "__dataclass_fields__"):
        return node
    if isinstance(node, ast.Variable):
        return names[node.name]
    parts = (getattr(node, name) for name in node.__dataclass_fields__ if name != "place")
    return (type(node).__name__, *(shape(part, names) for part in parts))


@pytest.mark.parametrize("pair", PAIRS)
def test_a_short_form_is_its_long_form(pair: str) -> None:
    """Also for printers, proofs and the lint, which read the long form."""
    short, long = pair.split(" ~ ")
    assert shape(read_rule(short), Renamed()) == shape(read_rule(long), Renamed())
    assert lint_report(load_policies(data={"version": 1, "policies": [{"id": "a", "temporal": short}]})) is not None


def test_a_value_keeps_its_meaning_inside_of_other_calls() -> None:
    """A name that a call of the history binds is another one."""
    session = compile_rules(["forall(f:pay(to=t), let n = count(g:pay(to=t)) in count(g:get(n=n)) == 1)"]).session()
    session.observe(Event("get", {"n": 0}, status="ok"), judge=False)
    assert session.check("pay", {"to": "a"}, reserve=False).label == 0
    session.observe(Event("pay", {"to": "a"}, status="ok"), judge=False)
    assert session.check("pay", {"to": "a"}, reserve=False).label == 1


def test_a_parameter_of_a_definition_takes_any_value() -> None:
    """Also one that the definition matches with an argument of a call."""
    define = {"paid(c)": "some(f:pay(customer=c), args(f).n > 0)"}
    rule = {"id": "a", "temporal": "forall(f:refund(), paid(args(f).order.customer))"}
    session = load_policies(data={"version": 1, "define": define, "policies": [rule]}).session()
    call = ("refund", {"order": {"customer": "C1"}})
    assert session.check(*call, reserve=False).rules == ("a",)
    session.observe(Event("pay", {"customer": "C1", "n": 5}, status="ok"), judge=False)
    assert session.check(*call, reserve=False).label == 0
    assert session.check("refund", {"order": {}}, reserve=False).errors


TABLES = {
    "limits": {"table": {"EUR": {"most": 500, "fee": 0.25}, "USD": {"most": 600, "fee": 1}}},
    "lines": {"table": [{"id": "a", "n": 1}, {"id": "b", "n": 2}]},
    "pairs": {"table": [["a", "b"], ["c"]]},
}


def tables(rule: str, tmp_path: Path | None = None) -> Session:
    policies = load_policies(
        data={"version": 1, "constants": TABLES, "policies": [{"id": "a", "temporal": rule}]}, folder=tmp_path
    )
    assert policies_in_words(policies)
    assert lint_report(policies) is not None
    opened: Session = policies.session()
    return opened


@pytest.mark.parametrize(
    ("rule", "allowed", "denied", "unknown"),
    [
        ("forall(pay(c=c), limits[c].most + limits[c].fee < 600)", {"c": "EUR"}, {"c": "USD"}, {"c": "X"}),
        ("forall(pay(c=c), lines[id = c].n == 2)", {"c": "b"}, {"c": "a"}, {"c": "x"}),
        ("forall(pay(c=c), c in keys(limits))", {"c": "USD"}, {"c": "usd"}, {"c": 5}),
        ("forall(pay(c=c), c in pairs)", {"c": ["a", "b"]}, {"c": ["b"]}, {"c": "a"}),
    ],
)  # fmt: skip
def test_a_table_is_a_constant(rule: str, allowed: Any, denied: Any, unknown: Any) -> None:
    """Rows by key, fields by name; a missing one is unknown."""
    session = tables(rule)
    assert session.check("pay", allowed, reserve=False).label == 0
    assert session.check("pay", denied, reserve=False).rules == ("a",)
    assert session.check("pay", unknown, reserve=False).errors


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"table": 5}, "expected a mapping or a list"),
        ({"table": {"a": None}}, "expected"),
        ({"table": {}, "least": 1}, "least"),
    ],
)
def test_a_wrong_table_is_an_error_at_load(table: Any, problem: str) -> None:
    """With its place."""
    data = {"version": 1, "constants": {"t": table}, "policies": [{"id": "a", "temporal": "G !tool:x"}]}
    with pytest.raises(InputError, match=problem) as error:
        load_policies(data=json.loads(json.dumps(data)))
    assert "constants" in str(error.value)


@pytest.mark.parametrize("parameters", ["text", "state, text"])
def test_a_toolbox_function_has_no_name_of_the_language(parameters: str, tmp_path: Path) -> None:
    """Rules would never call it; one that reads the state has other calls."""
    (tmp_path / "box.py").write_text(f"def commands({parameters}):\n    'Commands.'\n    return []\n")
    rule = {"id": "a", "temporal": "forall(pay(c=c), len(commands(c)) == 0)"}
    data = {"version": 1, "toolbox": "box.py", "policies": [rule]}
    if parameters == "text":
        with pytest.raises(InputError, match="'commands' has the name of a function of the language; rename it"):
            load_policies(data=data, folder=tmp_path)
    else:
        assert load_policies(data=data, folder=tmp_path)


def test_a_field_can_have_the_name_of_an_operator() -> None:
    """After a dot it is no operator."""
    session = compile_rules(
        ["forall(f:t(), args(f).matches == 1 && args(f).in.true == 2 && args(f).NOT in [3])"]
    ).session()
    call = {"matches": 1, "in": {"true": 2}, "NOT": 3}
    assert session.check("t", call, reserve=False).label == 0
    assert session.check("t", {**call, "matches": 2}, reserve=False).rules == ("rule 1",)


def test_a_tool_with_the_name_of_the_final_answer_is_refused() -> None:
    """The policy file says it when it is loaded, and a verdict says it for a call."""
    data = {"version": 1, "policies": [{"id": "a", "temporal": "G !tool:x"}]}
    with pytest.raises(InputError, match=r"'answer' is reserved for the final answer.*rename the tool"):
        load_policies(data={**data, "tools": {"answer": ["to", "text"], "x": None}})
    verdict = load_policies(data=data).session().check("answer", {"to": "a"})
    assert "'answer' has a name that is reserved for the final answer; rename the tool" in verdict.errors[0]


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("sum(f:pay(), args(f).n, 24h) < 5", "24h is not a value of the calls; for a time window write 'within'"),
        ("distinct(f:pay(), args(f).to, 1h) < 2", "1h is not a value of the calls"),
        ("distinct(f:pay()) < 2", "write the value to count after a comma"),
        ("since(login())", "write the calls that end it after a comma"),
        ("since(login(), logout())", "expected '!'"),
        ("distinct(x) < 2", "it counts values of earlier calls"),
        ("count(f:pay(), !failed(f), args(f).x == 1) < 2", "join conditions with '&&'"),
        ("exists(f:get(), true)", "write an earlier call as 'some(f:NAME(...), ...)'"),
        ('!(x contains "@")', "write '... in x'"),
        ("x is not null", "write 'known(x)'"),
        ("state(maintenance) == x", "a field of the state is 'state.maintenance'"),
        ('if x == "a" then false', "write 'A -> B'"),
        ("fact('role') == 1", "write 'fact(role)'"),
        ('elapsed < "30m"', 'elapsed is never "30m", a string; expected a number, or a duration without quotes'),
        ('"3" >= count(f:pay())', "expected a number"),
        ('usage.cost < "5"', "expected a number"),
        ('now < "2026-01-31"', "expected an instant such as 'time("),
        ("count(f:pay()) < 50k", "write all digits"),
        ("x > 3 => y", "did you mean '->'?"),
    ],
)
def test_a_slip_in_a_form_over_the_history_says_what_to_write(condition: str, problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        read_rule(f"forall(pay(), {condition})")


VALUES = ("n", "u", "args(f).n", "state.x[u]", "[n, u]", "count(g:get(u=u), args(g).n == n)", "last(get(u=u))")
CONDITIONS = (
    "{y} == 1 -> some(get(u=u))",
    "some(get(u=u, n=n), {y} != n)",
    "count(h:get(u=u), args(h).n == n && args(f).n == {y}) < 2",
    "all(x in [1, n], {y} == x || some(get(u=u, n=x)))",
    "since(get(u=u), !pay(u=u)) && known({y})",
)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("value", VALUES)
def test_a_value_with_a_name_means_the_value(value: str, condition: str) -> None:
    """Also where its names, or names around it, are in the patterns of the condition."""
    value = f"output({value})" if value.startswith("last") else value
    named = f"forall(f:pay(u=u, n=n), let y = {value} in {condition.format(y='y')})"
    rules = map(read_rule, (named, f"forall(f:pay(u=u, n=n), {condition.format(y=value)})"))
    first, second = (shape(rule, Renamed()) for rule in rules)
    assert first == second
