"""The text of messages in a condition: exact or unknown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.policy.load import compile_rules, load_policies

RULE = 'forall(pay(), text(user) == "a\\nb")'
PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
A, B, OTHER = ({"role": role, "content": text} for role, text in (("user", "a"), ("user", "b"), ("assistant", "c")))


@pytest.mark.parametrize(
    ("messages", "outcome"),
    [
        ([A, OTHER, B], "allow"),
        (lambda: [A, B], "allow"),
        ([{"role": "user", "content": PARTS}], "allow"),
        ([SimpleNamespace(role="user", content="a"), B], "allow"),
        ([B, A], "deny"),
        ([OTHER], "deny"),
        ([], "unknown"),
        ([A, B, {"role": "user", "content": [{"type": "image_url"}]}], "unknown"),
        ([A, B, {"role": "user", "content": None}], "unknown"),
        ([A, B, {"content": "c"}], "unknown"),
        ([A, B, "c"], "unknown"),
        ([A, B, {"role": "User", "content": "c"}], "unknown"),
        ([A, B, {"role": "human", "content": "c"}], "unknown"),
        ([A, B, {"role": "user", "content": {"type": "text", "text": "c"}}], "unknown"),
        ([A, B, {"role": "user", "content": [{"type": "image", "text": "c"}]}], "unknown"),
        (5, "unknown"),
        (lambda: 1 / 0, "unknown"),
    ],
)
def test_the_text_is_that_of_the_role(messages: Any, outcome: str) -> None:
    """In order; a message that is no text, or has no role, leaves it unknown."""
    verdict = compile_rules([RULE]).session(messages=messages).check("pay", {}, reserve=False)
    assert ("unknown" if verdict.errors else "deny" if verdict.label else "allow") == outcome


def test_a_role_that_does_not_exist_is_an_error() -> None:
    """A definition of the same name goes first."""
    with pytest.raises(InputError, match="expected 'text\\(ROLE\\)'"):
        compile_rules(['forall(pay(), text(owner) == "a")'])
    rule = {"id": "a", "temporal": "forall(pay(n=n), text(n))"}
    policies = load_policies(data={"version": 1, "define": {"text(n)": "n < 5"}, "policies": [rule]})
    assert policies.session().check("pay", {"n": 1}).label == 0
