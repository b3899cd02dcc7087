"""The entries of `counters:`: how they can be written, and what is refused."""

from __future__ import annotations

import pytest

from guardagent import InputError, Policies, load_policies


def policies_of(counter: str, more: str = "", rule: str = "counter(spent)") -> Policies:
    rules = f"policies:\n  - id: a\n    temporal: forall(refund(), {rule} < 9)\n"
    return load_policies(text=f"version: 1\n{more}counters:\n  spent: {counter}\n{rules}")


@pytest.mark.parametrize(
    ("counter", "rule"),
    [
        ("{on: refund(customer=c, amount=a), key: c, sum: a, window: 24h}", "counter(spent, 'x')"),
        ("{on: 'refund(customer=c, amount=a)', key: [c, a], window: 1.5h}", "counter(spent, 'x', 1)"),
        ("{'on': '@money(amount=a)', sum: a.total * 2}", "counter(spent)"),
        ("{on: 'refund|credit(customer=c, kind=\"cash\")', key: fact(user.id)}", "counter(spent, 'x')"),
        ("\n    on: refund(customer=c, amount=a)  # each\n    key: c.id\n    sum: len(a)", "counter(spent, 'x')"),
    ],
)
def test_it_can_be_written_in_several_ways(counter: str, rule: str) -> None:
    """In braces, YAML splits the pattern at its commas, and reads `on` as a boolean."""
    (counted,) = policies_of(counter, "tags: {money: [refund]}\n", rule).counters
    assert (counted.name, "refund" in counted.tools) == ("spent", True)


@pytest.mark.parametrize(
    ("counter", "says"),
    [
        ("{on: refund(customer=c), key: d}", r"text:4: unknown variable 'd'; known: c"),
        ("{on: refund(customer=c), key: 'c ='}", r"text:4: unexpected"),
        ("{on: refund(customer=c), sum: '\"x\"'}", r"'sum' is '\"x\"', which is not a number"),
        ("{on: refund(customer=c), sum: c == 1}", r"'sum' is 'c == 1', which is not a number"),
        ("{on: refund(customer=c), sum: lower(c)}", r"'sum' is 'lower\(c\)', which is not a number"),
        ("{on: refund(customer=c), sum: 'any(x in c, x > 1)'}", r"'sum' is 'any\(.*', which is not a number"),
        ("{on: refund(), sum: usage.tokens * 2}", "computes with the usage of models; expected 'usage.tokens'"),
        ("{on: refund(), sum: usage.token}", "unknown field 'token' of 'usage'; did you mean 'tokens'"),
        ("{on: refund(), sum: elapsed}", "'elapsed' reads other calls"),
        ("{on: refund(customer=c), sum: -3}", r"'sum' is '-3', which YAML reads as a number"),
        ("{on: refund(customer=c), sum: '-3'}", r"a counter never falls"),
        ("{on: refund(customer=c), key: 'count(refund())'}", r"'count\(refund\(\)\)' reads other calls"),
        ("{on: refund(customer=c), key: 'state(owner(c))'}", r"unknown state function 'owner'"),
        ("{on: refund(customer=c), window: 1 day}", r"'window' is the string '1 day'; expected a duration such as 24h"),
        ("{on: refund(), window: 24}", r"'window' is '24', which YAML reads as a number; expected a duration"),
        ("{on: refund(customer=c), window: 0h}", r"'window' is the string '0h'"),
        ("{on: refund(customer=c), window: 9999w}", r"'window' is the string '9999w'"),
        ("{on: 'refund('}", r"unexpected"),
        ("{on: 'refund(), True, pay()'}", r"unexpected"),
        ("{on: 'refund(), True) AND forall(pay()'}", r"'on' is not one call pattern"),
        ("{on: 'f:refund()'}", r"the label 'f' has no use here"),
        ("{on: refnd(customer=c)}", r"text:4: unknown tool 'refnd'; did you mean 'refund'"),
        ("{on: refund(client=c)}", r"unknown argument of refund 'client'"),
        ("{on: '@cash(amount=a)'}", r"unknown tag 'cash'"),
        ("{on: refund(customer=c), keys: c}", r"unknown key 'keys' in counter; did you mean 'key'"),
        ("{key: c}", r"key 'on' is missing in counter"),
        ("refund()", r"'counter' is the string 'refund\(\)'; expected a mapping"),
    ],
)
def test_a_wrong_counter_is_refused(counter: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        policies_of(counter, "tools: {refund: [customer, amount], credit: [amount]}\n")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("counter(spend, 'x')", "unknown counter 'spend'; did you mean 'spent'.*declare it in 'counters:'"),
        ("counter(spent)", "counter 'spent' has 1 keys; 0 are written"),
    ],
)
def test_a_rule_names_a_counter_with_its_keys(rule: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        policies_of("{on: refund(customer=c), key: c}", rule=rule)


def test_the_name_is_one_that_rules_can_write() -> None:
    with pytest.raises(InputError, match=r"text:2: 'per day' is not a valid name of a counter"):
        load_policies(
            text="version: 1\ncounters: {per day: {on: 'refund()'}}\npolicies: [{id: a, temporal: 'G !tool:x'}]"
        )
