"""The scope of approvals: what a policy file may say, and what it covers, against the plain reading."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent import InputError, Policies, load_policies
from guardagent.policy.scope import ApprovalScope, LiveGrant
from guardagent.policy.words import policies_in_words
from guardagent.session.counters.memory import MemoryCounters
from guardagent.session.session import Session

SCOPE = {"tool": "refund", "same": "[customer]", "up_to": "{amount: 300, sum: 1000}", "calls": "10", "for": "1h"}


def policy(scope: dict[str, str], response: str = "escalate", more: str = "") -> str:
    keys = ", ".join(f"{name}: {value}" for name, value in scope.items())
    rule = f"{{id: small, temporal: 'forall(refund(amount=a), a <= 100)', on_violation: {response}"
    return f"version: 1\n{more}policies:\n  - {rule},\n     approvals: {{scope: {{{keys}}}}}}}\n"


def test_a_scope_is_read_and_explained() -> None:
    policies = load_policies(text=policy({**SCOPE, "any": "[note]"}))
    scope = policies.approval_scopes["small"]
    assert scope == ApprovalScope("refund", ("customer",), {"amount": 300, "sum": 1000}, ("note",), 10, 3600.0)
    assert ApprovalScope.of(scope.content) == scope
    assert policies_in_words(policies)["small"].text.endswith(
        "A reviewer may allow at once: `refund` with the same `customer`, `amount` up to 300 each and 1,000 in all, "
        "any `note`: at most 10 calls within 1 hour."
    )
    assert policies.digest != load_policies(text=policy(SCOPE)).digest


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"tool": "refnd"}, "did you mean 'refund'?"),
        ({"tool": "'@all'"}, "expected a name without '@'"),
        ({"same": "[customer, customer]"}, "twice"),
        ({"any": "[customer]"}, "'customer' is in 'any', and in 'same' or 'up_to'"),
        ({"up_to": "{sum: 3}"}, "'sum' bounds the total of one argument"),
        ({"up_to": "{amount: 1, fee: 2, sum: 3}"}, "'sum' bounds the total of one argument"),
        ({"up_to": "{amount: -1}"}, "expected a number from 0"),
        ({"up_to": "{amount: true}"}, "expected a number from 0"),
        ({"calls": "0"}, "expected a whole number from 1"),
        ({"calls": "1.5"}, "expected a whole number from 1"),
        ({"calls": "true"}, "expected a whole number from 1"),
        ({"for": "1y"}, "expected a duration such as 1h"),
        ({"for": "60"}, "expected a duration such as 1h"),
        ({"cals": "1"}, "did you mean 'calls'?"),
    ],
)
def test_a_mistake_is_an_error_with_its_line(changed: dict[str, str], problem: str) -> None:
    with pytest.raises(InputError, match=r"text:\d+: ") as error:
        load_policies(text=policy({**SCOPE, **changed}))
    assert problem in str(error.value)


@pytest.mark.parametrize("key", ["tool", "calls", "for"])
def test_a_missing_key_is_an_error(key: str) -> None:
    with pytest.raises(InputError, match=f"key '{key}' is missing"):
        load_policies(text=policy({name: value for name, value in SCOPE.items() if name != key}))


def test_a_rule_that_asks_nobody_has_no_approvals_and_arguments_are_declared() -> None:
    with pytest.raises(InputError, match="on_violation: escalate"):
        load_policies(text=policy(SCOPE, "block"))
    with pytest.raises(InputError, match="unknown argument 'custmer'; did you mean 'customer'"):
        load_policies(text=policy({**SCOPE, "same": "[custmer]"}, more="tools: {refund: [customer, amount]}\n"))


# --- the plain reading

VALUES = st.sampled_from([1, 1.0, "1", True, None, [1], [True], {"a": 1}, "x"])
AMOUNTS = st.sampled_from(
    [0, 1, 50, 100.5, 100.51, 101, 150, 300, 300.01, -1, "150", True, None, [150], 1e31, 0.1 + 0.2]
)
SCOPES = st.builds(
    lambda same, bound, total, free, calls: ApprovalScope(
        "refund", same, {"amount": bound} | ({} if total is None else {"sum": total}), free, calls, 60.0
    ),
    st.sampled_from([(), ("customer",), ("customer", "shop")]),
    st.sampled_from([120, 150.5, 300]),
    st.sampled_from([None, 300, 451.5]),
    st.sampled_from([(), ("note",)]),
    st.integers(1, 4),
)
ARGS = st.fixed_dictionaries(
    {"amount": AMOUNTS},
    optional={"customer": VALUES, "shop": VALUES, "note": VALUES, "order": st.just(1)},
)
CALLS = st.lists(st.tuples(st.sampled_from(["refund", "refund", "pay"]), ARGS, st.booleans(), st.integers(0, 30)))


def typed(value: Any) -> Any:
    """A value such that equal ones have equal types, all the way down."""
    if isinstance(value, Mapping):
        return {name: typed(part) for name, part in value.items()}
    return [typed(part) for part in value] if isinstance(value, list | tuple) else (type(value), value)


def covered(scope: ApprovalScope, granted: dict[str, Any], used: list[Any], args: dict[str, Any]) -> bool:
    """The plain reading of a scope: whether a call may run after others that used it."""
    amount: Any = args["amount"]
    return (
        all(name in (*scope.same, *scope.any, "amount") for name in args)
        and all(name in args and typed(args[name]) == typed(granted[name]) for name in scope.same)
        and type(amount) in (int, float)
        and 0 <= amount <= scope.up_to["amount"]
        and len(used) < scope.calls
        and sum(map(str_number, [*used, amount])) <= str_number(scope.up_to.get("sum", 10**9))
    )


def str_number(value: float) -> Fraction:
    return Fraction(str(value))


def escalating(scope: ApprovalScope) -> Policies:
    same, free = (f"[{', '.join(names)}]" for names in (scope.same, scope.any))
    parts = {"tool": scope.tool, "up_to": str(dict(scope.up_to)), "calls": str(scope.calls), "for": "60s"}
    parts |= {"same": same} if scope.same else {}
    return load_policies(text=policy(parts | ({"any": free} if scope.any else {})))


@given(SCOPES, ARGS, CALLS)
def test_what_runs_under_a_grant_is_what_the_plain_reading_allows(
    scope: ApprovalScope, granted: dict[str, Any], calls: list[Any]
) -> None:
    now = [1000.0]
    values = {name: granted.get(name) for name in scope.same}

    def find(_rule: str, _scope: ApprovalScope, args: Any) -> list[LiveGrant]:
        same = all(typed(args[name]) == typed(values[name]) for name in values)
        return [LiveGrant("g", scope, 1060.0)] if same else []

    session = Session(escalating(scope), counters=MemoryCounters(), grants=find, clock=lambda: now[0])
    used: list[Any] = []
    for tool, args, fails, passed in calls:
        now[0] += passed / 10
        verdict = session.check(tool, args)
        amount = args["amount"]
        asks = tool == "refund" and type(amount) in (int, float) and amount > 100
        if asks:
            may_run = now[0] < 1060.0 and covered(scope, values, used, args)
            assert (verdict.label == 0) is may_run
            assert ("grants" in verdict.details) is may_run
            used += [amount] if may_run and not fails else []
        if verdict.permit is not None and verdict.label == 0:
            session.record("done", failed=fails, permit=verdict.permit)
