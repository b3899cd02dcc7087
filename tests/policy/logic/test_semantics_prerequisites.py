"""Rules that ask for an earlier step."""

from pathlib import Path

import pytest

from guardagent import load_policies
from guardagent.policy.logic.semantics import needs_earlier_step

EARLIER = [
    "G(tool:refund -> O tool:login)",
    "G(tool:refund -> Y tool:login)",
    "(NOT tool:refund) W tool:login",
    "(G(tool:refund -> O tool:login)) AND (tool:refund -> F tool:receipt)",
    "G(tool:refund -> (NOT tool:logout) S tool:login)",
    "before(refund(order=o), True, lookup(order=o), True)",
    "before(refund(order=o), True, lookup(order=o), True) AND after(refund(), True, receipt(), True)",
    "forall(refund(order=o), some(lookup(order=o)))",
    "seq(login(), lookup(), refund())",
    "tool:refund -> F tool:receipt",  # a second refund comes too early; the end of the trace does not count
]
OTHERS = [
    "G(NOT tool:delete)",
    "G(tool:delete -> H NOT tool:freeze)",
    "(G(tool:refund -> O tool:login)) AND (G(NOT tool:delete))",
    "G(tool:refund -> X NOT tool:refund)",
    "G(tool:refund -> F tool:receipt)",
    "tool:refund -> F[<=2] tool:receipt",
    "forall(refund(amount=a), a <= 100)",
    "before(refund(amount=a), True, lookup(), a <= 100)",
    "forall(refund(amount=a), a <= 100 OR some(approve()))",
    "NOT before(refund(), True, lookup(), True)",
    "after(refund(), True, receipt(), True)",
    "exists(login())",
]


@pytest.mark.parametrize(
    ("text", "expected"), [*((text, True) for text in EARLIER), *((text, False) for text in OTHERS)]
)
def test_every_violation_at_a_call_is_a_missing_earlier_step(text: str, expected: bool, tmp_path: Path) -> None:
    """Steps that are too late, forbidden, or wrong by themselves are not."""
    path = tmp_path / "policies.yaml"
    path.write_text(f"version: 1\npolicies:\n  - id: one\n    temporal: {text!r}\n")
    assert needs_earlier_step(load_policies(path).rules[0]) is expected
