"""A remedy is a step that the agent can take and that can help."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent import Event, load_policies
from guardagent.policy.load import compile_rules
from guardagent.session.session import Session


def remedy(session: Session, tool: str = "refund", **args: Any) -> str | None:
    return session.check(tool, args, reserve=False).violations[0].remedy


def ran(session: Session, tool: str, output: Any = "done", *, failed: bool | None = False, **args: Any) -> None:
    verdict = session.check(tool, args)
    session.record(output, failed=failed, permit=verdict.permit)


@pytest.mark.parametrize(
    "rule",
    [
        "G(tool:refund -> O reviewed)",
        "G(tool:refund -> O action:review)",
        "G(tool:refund -> O (reviewed || decision:approved))",
        "G(tool:refund -> Y reviewed)",
    ],
)
def test_a_remedy_never_names_a_tag_as_a_tool(rule: str) -> None:
    """Only the host gives tags, actions and decisions, so no call of the agent helps."""
    session = compile_rules([rule]).session()
    assert remedy(session) is None
    session.observe(Event("other", tags=frozenset({"reviewed"}), action="review", status="ok"))
    assert session.check("refund").label == 0


def test_a_step_beside_a_tag_is_still_named() -> None:
    """One of the two alternatives is a tool."""
    assert remedy(compile_rules(["G(tool:refund -> O (reviewed || tool:audit))"]).session()) == "call 'audit' first"


@pytest.mark.parametrize("failed", [True, None])
def test_a_failed_step_is_not_suggested_again(failed: bool | None) -> None:
    """Until it ends well; a failure of other arguments does not count."""
    session = compile_rules(["G(tool:refund -> O tool:login)", "tool:refund -> F tool:mail"]).session()
    assert remedy(session) == "call 'login' first"
    ran(session, "login", "no", failed=failed)
    assert remedy(session) is None
    ran(session, "login")
    ran(session, "refund")
    assert session.obligations == {"rule 2": "call 'mail'"}
    ran(session, "mail", failed=True)
    assert session.obligations == {"rule 2": "the rule is: tool:refund -> F tool:mail"}


def test_the_arguments_of_a_step_tell_it_from_another() -> None:
    """An order that was looked up in vain is not looked up again; another one is."""
    rule = "before(refund(order=o), true, f:get(order=o), output(f).paid == true)"
    session = compile_rules([rule]).session()
    ran(session, "get", {"paid": False}, order="W1")
    ran(session, "get", "Error", failed=True, order="W2")
    assert remedy(session, order="W1") is None
    assert remedy(session, order="W2") is None
    assert remedy(session, order="W3") == "call 'get(order=\"W3\")' first"


def test_an_alternative_that_was_not_tried_is_named() -> None:
    """Of two steps that would do, only the failed one is left out."""
    rule = {"id": "a", "temporal": "G(tool:refund -> O @proof)"}
    data = {"version": 1, "tags": {"proof": ["card", "code"]}, "policies": [rule]}
    derived = load_policies(data=data).session()
    rule["remedy"] = "Use card or code."
    written = load_policies(data=data).session()
    assert (remedy(derived), remedy(written)) == ("call 'card' or 'code' first", "Use card or code.")
    for session in (derived, written):
        ran(session, "card", failed=True)
    assert (remedy(derived), remedy(written)) == ("call 'code' first", "Use card or code.")
    for session in (derived, written):
        ran(session, "code", failed=True)
    assert (remedy(derived), remedy(written)) == (None, None)
