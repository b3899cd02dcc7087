"""The guard of an agent's tools decides on any input and never raises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guardagent import Decision, InputError, Verdict, load_policies
from guardagent.enforcement import HostCall, Outcome, ToolGuard
from guardagent.enforcement.tool_guard import gave_up
from guardagent.policy.load import compile_rules
from tests.enforcement.guards import LIMIT, ONCE, MemoryLog, done, guard, ran, refund
from tests.frameworks.scenarios import ASKS, HALTED, broken_rules, guard_of


@pytest.mark.parametrize("fault", sorted(broken_rules()))
def test_rules_that_do_not_work_deny(fault: str, tmp_path: Path) -> None:
    """Rules that raise, hang or return an invalid result deny, in `before` and in `abefore`."""
    tool_guard = guard_of(tmp_path, ASKS, **broken_rules()[fault])
    call = HostCall("refund", {"order_id": "W1"}, "a")
    assert tool_guard.before(call).label == 1
    assert asyncio.run(tool_guard.abefore(HostCall("refund", {"order_id": "W1"}, "b"))).errors
    with pytest.raises(InputError):
        tool_guard.use(call)


class Unprintable(Exception):  # noqa: N818 - stands for a foreign exception
    """An exception that cannot be converted to a string."""

    def __str__(self) -> str:
        raise self


@pytest.mark.parametrize("error", [RuntimeError, Unprintable, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_exceptions_of_rules_deny(error: type[BaseException]) -> None:
    """This includes exceptions that would end the process or the host's task."""

    def state(conversation: str) -> Any:
        raise error

    tool_guard = guard("forall(refund(), state.open == true)", state=state)
    assert tool_guard.before(refund()).label == 1
    assert asyncio.run(tool_guard.abefore(refund())).label == 1


class AnySession:
    """A foreign rule set whose check returns the given value."""

    requests = rules = ()

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def session(self, *args: Any, **options: Any) -> AnySession:
        return self

    def check(self, *args: Any, **options: Any) -> Any:
        return self.answer


@pytest.mark.parametrize("answer", [None, True, "allow", 0, {"label": 0}, Verdict(Decision.ALLOW), Decision.ALLOW])
def test_results_that_are_not_verdicts_with_a_permit_deny(answer: Any) -> None:
    """Only a verdict with a permit allows a call."""
    tool_guard = ToolGuard(AnySession(answer))  # type: ignore[arg-type]
    assert tool_guard.before(refund()).label == 1


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def deep() -> Any:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    return value


class Unreadable(dict[str, Any]):
    """A mapping whose keys cannot be read."""

    def keys(self) -> Any:
        raise RuntimeError

    def __iter__(self) -> Any:
        raise RuntimeError


ODD_ARGUMENTS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "number": lambda: 7,
    "text": lambda: "amount",
    "pairs": lambda: [("amount", 5)],
    "other names": lambda: {1: 5},
    "contains itself": lambda: {"amount": cyclic()},
    "is itself": cyclic,
    "without end": lambda: {"amount": deep()},
    "unreadable": lambda: Unreadable(a=1),
    "not a number": lambda: {"amount": float("nan")},
    "too many digits": lambda: {"amount": 10**5000},
    "object": lambda: {"amount": object()},
}


@pytest.mark.parametrize("kind", ODD_ARGUMENTS)
def test_invalid_arguments_deny(kind: str) -> None:
    """Wrong types, non-string names, cycles and excessive depth are denied."""
    tool_guard, call = guard(LIMIT), HostCall("refund", ODD_ARGUMENTS[kind](), "c")
    assert tool_guard.before(call).label == 1
    assert tool_guard.refuse(call, "odd").label == 1


@pytest.mark.parametrize(
    "more",
    [
        {"tool": None},
        {"tool": ""},
        {"tool": ["refund"]},
        {"action": 7},
        {"tags": "refund"},
        {"tags": 7},
        {"facts": [1]},
        {"facts": None},
        {"facts": ""},
    ],
    ids=repr,
)
def test_a_call_of_the_wrong_types_is_denied(more: dict[str, Any]) -> None:
    """Every field of a call may have the wrong type."""
    verdict = guard(LIMIT).before(HostCall(**{"tool": "refund", "args": {"amount": 50}, "conversation": "c", **more}))
    assert verdict.label == 1


def test_facts_come_from_the_host_per_call() -> None:
    """A function computes them from the call, the call's own facts take precedence, and a non-mapping denies."""
    rule = "forall(refund(), fact(vip) == true)"
    tool_guard = guard(rule, facts=lambda call: {"vip": call.agent == "desk"})
    assert [tool_guard.before(refund(agent=agent)).label for agent in ("desk", "bot")] == [0, 1]
    assert tool_guard.before(refund(facts={"vip": True})).label == 0
    assert guard(rule, facts=lambda call: None).before(refund()).errors


@pytest.mark.parametrize("what", ["facts", "state"])
def test_error_messages_of_host_functions_are_withheld(what: str) -> None:
    """The message may contain data of another user; only the type of the exception is shown."""

    def broken(_: Any) -> Any:
        raise KeyError("bob_2")

    verdict = guard("forall(refund(amount=a), a <= state.most)", **{what: broken}).before(refund())
    assert (verdict.label, "KeyError" in verdict.feedback()) == (1, True)
    assert "bob_2" not in verdict.to_json() + verdict.feedback()


def test_the_state_depends_on_the_conversation() -> None:
    """The state function gets the id of the conversation."""
    tool_guard = guard(
        "forall(refund(amount=a), a <= state.most)", state=lambda name: {"most": 100 if name == "vip" else 10}
    )
    assert [tool_guard.before(refund(50, name)).label for name in ("vip", "any")] == [0, 1]


@pytest.mark.parametrize(
    "options",
    [
        {"on_log_error": "ignore"},
        {"max_replans": -1},
        {"max_replans": True},
        {"deadline": 0},
        {"deadline": float("nan")},
        {"deadline": float("inf")},
        {"deadline": "10"},
        {"facts": [("vip", True)]},
        {"aliases": ["refund"]},
        {"aliases": {"a": 1}},
        {"absent": "refund"},
        {"approver": "ann"},
        {"log": "audit.db"},
        {"answers": "gpt"},
    ],
    ids=repr,
)
def test_options_of_the_wrong_type_are_errors(options: dict[str, Any]) -> None:
    """They are refused when the guard is created, not at the first call."""
    with pytest.raises(InputError):
        guard(LIMIT, **options)


def test_coroutine_functions_for_facts_and_state_are_errors() -> None:
    """The functions for facts and state must be synchronous."""

    async def gives(_: Any) -> dict[str, Any]:
        return {}

    for option in ("state", "facts"):
        with pytest.raises(InputError, match="coroutine function"):
            guard(LIMIT, **{option: gives})


@pytest.mark.parametrize("policies", [None, {}, 7, ["p.yaml"]])
def test_rules_of_the_wrong_type_are_errors(policies: Any) -> None:
    """The policy is a file or the result of load_policies."""
    with pytest.raises(InputError, match="expected a policy file"):
        ToolGuard(policies)


# --- replans


def test_after_three_replans_control_returns_to_the_user() -> None:
    """The fourth denied turn and every later one are marked as given up."""
    tool_guard = guard(LIMIT)
    assert [gave_up(tool_guard.before(refund(500))) for _ in range(6)] == [False, False, False, True, True, True]


def test_calls_that_are_denied_in_one_turn_are_one_replan() -> None:
    """Five denied calls in one turn count as one replan."""
    tool_guard = guard(LIMIT)
    steps = [step for step in "abcd" for _ in range(5)]
    assert [gave_up(tool_guard.before(refund(500, step=step))) for step in steps] == [False] * 15 + [True] * 5


def test_an_allowed_call_resets_the_count() -> None:
    """Only consecutive replans count."""
    tool_guard = guard(LIMIT, max_replans=1)
    tool_guard.before(refund(500))
    tool_guard.before(refund(50))
    assert not gave_up(tool_guard.before(refund(500)))
    assert gave_up(tool_guard.before(refund(500)))


def test_unparsable_calls_count_as_denials() -> None:
    """A model that never writes valid JSON is given up on, too."""
    tool_guard = guard(LIMIT, max_replans=0)
    assert gave_up(tool_guard.refuse(HostCall("refund", {}, "c"), "no JSON"))
    assert gave_up(asyncio.run(tool_guard.arefuse(HostCall("refund", {}, "d"), "no JSON")))


def test_halt_denies_all_later_calls(tmp_path: Path) -> None:
    """All later calls of this conversation are denied, but not those of another one."""
    tool_guard = guard_of(tmp_path, HALTED)
    assert tool_guard.before(HostCall("wire", {}, "a")).decision is Decision.HALT
    assert [tool_guard.before(HostCall("look", {}, name)).label for name in "ab"] == [1, 0]


# --- outcomes


def test_an_outcome_without_a_call_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It does not raise and records nothing."""
    tool_guard = guard(LIMIT)
    for outcome in (Outcome(), None, "done"):
        tool_guard.after(refund(), outcome)  # type: ignore[arg-type]
        asyncio.run(tool_guard.aafter(refund(), outcome))  # type: ignore[arg-type]
    assert "was not recorded" in caplog.text


def test_an_outcome_that_cannot_be_recorded_leaves_its_call_in_flight() -> None:
    """It can be recorded again as a string."""
    tool_guard = guard(LIMIT)
    call = refund()
    tool_guard.before(call)
    done(tool_guard, call, deep())
    assert tool_guard.session("c").history[0].status is None
    tool_guard.after(call, Outcome("done"))
    assert tool_guard.session("c").history[0].status == "ok"


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("no"), "failed"), (TimeoutError(), "unknown"), (KeyboardInterrupt(), None), (Unprintable(), "failed")],
)
def test_the_exception_of_a_tool_determines_its_status(error: BaseException, status: str | None) -> None:
    """After a timeout the outcome is unknown; after an interruption the call is still in flight."""
    tool_guard = guard(LIMIT)
    call = refund()
    tool_guard.before(call)
    tool_guard.after(call, Outcome.of_error(error))
    assert tool_guard.session("c").history[0].status == status


def test_the_second_of_two_parallel_refunds_is_denied() -> None:
    """The second is judged while the first is in flight."""
    tool_guard = guard(ONCE)
    first, second = refund(), refund()
    assert [tool_guard.before(first).label, tool_guard.before(second).label] == [0, 1]
    tool_guard.after(first, Outcome.of_error(asyncio.CancelledError()))
    assert tool_guard.before(refund()).label == 1


# --- answers


class Answers:
    """A judge that denies answers with a secret."""

    def guard(self, agent_input: str, output: str, facts: Any = None) -> Any:
        if output == "crash":
            raise RuntimeError
        return Verdict(Decision.DENY if "secret" in output else Decision.ALLOW) if output != "odd" else "fine"


def test_final_answers_are_judged() -> None:
    """A judge that crashes or returns an invalid result denies, and so does a missing conversation id."""
    tool_guard = ToolGuard(compile_rules([LIMIT]), answers=Answers())  # type: ignore[arg-type]
    labels = {text: tool_guard.answer("c", "question", text).label for text in ("fine", "the secret", "crash", "odd")}
    assert labels == {"fine": 0, "the secret": 1, "crash": 1, "odd": 1}
    assert asyncio.run(tool_guard.aanswer("c", "question", "the secret")).label == 1
    assert tool_guard.answer("", "question", "fine").label == 1
    assert guard(LIMIT).answer("c", "question", "the secret").label == 0


def test_a_preview_leaves_no_trace() -> None:
    """It returns the verdict without recording the call."""
    tool_guard = guard(ONCE)
    assert [tool_guard.preview(refund()).label, tool_guard.preview(refund()).label] == [0, 0]
    ran(tool_guard, refund())
    assert tool_guard.preview(refund()).label == 1


# --- the bound on the seen values of a conversation is the guard's to set


POLICY: dict[str, Any] = {
    "version": 1,
    "labels": {"untrusted": "page"},
    "policies": [{"id": "known", "temporal": 'forall(send(to=r), !("untrusted" in sources(r)))'}],
}


@pytest.mark.parametrize(("options", "label"), [({}, 0), ({"provenance_bytes": 1000}, 1)])
def test_what_does_not_fit_is_unknown(options: dict[str, Any], label: int) -> None:
    tool_guard = ToolGuard(load_policies(data=POLICY), **options)
    ran(tool_guard, HostCall("page", {}, "c"), "eve@evil.example " * 100)
    verdict = tool_guard.before(HostCall("send", {"to": "ann@corp.example"}, "c"))
    assert (verdict.label, any("provenance_bytes" in error for error in verdict.errors)) == (label, bool(label))


@pytest.mark.parametrize("bound", [-1, 1.5, "16 MB", True])
def test_the_bound_is_checked_when_the_guard_is_built(bound: Any) -> None:
    with pytest.raises(InputError, match=r"^provenance_bytes is .*; expected an integer"):
        ToolGuard(load_policies(data=POLICY), provenance_bytes=bound)


# --- roles that a provider withdraws


def test_withdrawn_roles_are_gone_from_the_next_check_on() -> None:
    """In a running conversation, for its sub-agents too, and in the log. Added roles count from the next one on."""
    roles, log = ["admin", "clerk"], MemoryLog()
    current = guard(
        'forall(refund(), "admin" in principal.roles)',
        'forall(refund(), !("owner" in principal.roles))',
        principal=lambda _: {"id": "ann", "tenant": "shop", "roles": list(roles)},
        log=log,
    )
    part = {"id": "helper", "roles": ["admin"]}
    assert [current.before(refund(id=name, principal=of)).label for name, of in (("1", None), ("2", part))] == [0, 0]
    roles.remove("admin")
    verdicts = [current.before(refund(id=name, principal=of)) for name, of in (("3", None), ("4", part))]
    assert [verdict.rules for verdict in verdicts] == [("rule 1",), ("rule 1",)]
    assert log.of("verdict")[2]["principal"]["roles"] == ("clerk",)
    roles += ["admin", "owner"]
    assert current.before(refund(id="5")).label == 0
    assert current.before(refund(conversation="d")).rules == ("rule 2",)


@pytest.mark.parametrize(
    "withdrawn",
    [
        None,
        {"id": "bob"},
        {"id": "ann", "tenant": "bank"},
        {"id": "ann", "on_behalf_of": {"id": "eve"}},
        RuntimeError("gone"),
    ],
)
def test_a_withdrawn_principal_is_denied(withdrawn: Any) -> None:
    """So is another one, and one that is unavailable: never the one of before."""
    answers = iter([{"id": "ann"}, {"id": "ann"}])

    def principal(_: str) -> Any:
        answer = next(answers, withdrawn)
        if isinstance(answer, Exception):
            raise answer
        return answer

    current = guard(LIMIT, principal=principal)
    verdicts = [current.before(refund(id=name)) for name in "12"]
    assert [verdict.label for verdict in verdicts] == [0, 1]
    assert "the principal" in verdicts[1].errors[0]
