"""The source text of a rule parses to the same rule."""

from __future__ import annotations

import pytest

from guardagent.policy.language.declarations import Declarations
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.language.parser import read_rule, rule_text
from tests.policy.data_cases import FUNCTIONS, TAGS, Maker

DECLARED = Declarations(functions=frozenset(FUNCTIONS), tags=frozenset(TAGS))
RULES = (
    "p -> F q -> F r",
    "G(q -> Y p) && H !p",
    "!(p S q) || p R X q",
    'G(tool:"send mail" -> F[<=3] action:write)',
    'forall(f:"send mail"("reply to"=/a\\/b|c\\\\/, n=-0.5), fact("a-b.c") == "\\n\\"" && tool(f) != "x")',
    'forall(pay(at=t), hour(now, "UTC") < 12 && count(g:pay(), !failed(g), within 90s) - 1 < t % 7)',
)


@pytest.mark.parametrize("rule", RULES)
def test_the_text_of_a_rule_is_that_rule(rule: str) -> None:
    """Names in quotes, regular expressions, numbers and every operator come back."""
    read = read_rule(rule, DECLARED)
    assert read_rule(rule_text(read), DECLARED) == read


def test_random_rules_come_back() -> None:
    """Propositional rules that are joined with others may change places once."""
    for seed in range(300):
        try:
            read = read_rule(Maker(seed).rule(), DECLARED)
        except TemporalError:
            continue
        again = read_rule(rule_text(read), DECLARED)
        assert again == read or rule_text(read_rule(rule_text(again), DECLARED)) == rule_text(again)
