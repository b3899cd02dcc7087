"""RemoteGuard denies whatever the server does not clearly allow, and acts once, however often it has to ask."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from guardagent import RemoteGuard
from guardagent.enforcement import Approval, HostCall, Outcome, ToolSpec, arun, run
from guardagent.enforcement.remote import wait_for_reviewers
from guardagent.errors import InputError, ToolDenied
from guardagent.types import Decision
from tests.enforcement.remote.scripted_server import APPROVER, TOKEN, Fault, ScriptedServer, scripted_server
from tests.processes import is_true_in_child

CALL = HostCall("refund", {"amount": 50}, "c1", "1")
WAITS = """
version: 1
policies:
  - {id: large, temporal: "forall(refund(amount=a), a <= 100)", on_violation: escalate}
  - {id: never, temporal: "forall(refund(amount=a), a <= 1000)"}
"""
WIRE = HostCall("wire", {"amount": 500}, "c1", "7")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


def guard_of(server: ScriptedServer, **options: Any) -> RemoteGuard:
    return RemoteGuard(server.url, **{"token": TOKEN, "timeout": 2.0, **options})


def settled(server: ScriptedServer, seconds: float = 3.0) -> bool:
    """Whether no call is in flight, now or soon."""
    until = time.monotonic() + seconds
    while server.in_flight and time.monotonic() < until:
        time.sleep(0.01)
    return not server.in_flight


# --- a call


def test_a_call_is_checked_runs_once_and_is_recorded(server: ScriptedServer) -> None:
    """Also asynchronously, and in a conversation whose id no server takes as it is."""
    guard = guard_of(server)
    assert run(guard, CALL, lambda args: args["amount"] + 1) == 51
    assert server.recorded == {"1": {"output": 51, "failed": False, "ended": True}}

    async def paid(args: Any) -> Any:
        return args["amount"]

    assert asyncio.run(arun(guard, replace(CALL, conversation="a/b ü", id="2"), paid)) == 50
    assert server.in_flight == []
    assert [request[1]["id"] for request in server.requests if request[0] == "sessions"][1].startswith("sha256:")


def test_a_call_that_never_runs_is_withdrawn(server: ScriptedServer) -> None:
    """One that may be running is not."""
    guard = guard_of(server)
    guard.before(CALL)
    guard.withdraw(CALL, "the user left")
    assert server.in_flight == []
    guard.before(CALL)
    guard.use(CALL)
    guard.withdraw(CALL, "the user left")
    assert server.in_flight == ["1~2"]
    guard.withdraw(CALL, "the arguments do not fit", used=True)
    assert server.in_flight == []


def test_an_id_that_the_host_uses_again_is_new_for_the_server(server: ScriptedServer) -> None:
    """The server takes each id once; hosts repeat the id of a call that failed."""
    guard = guard_of(server)
    for _ in range(3):
        run(guard, CALL, lambda args: "x")
    assert list(server.recorded) == ["1", "1~2", "1~3"]


# --- outcomes that wait for the next check


@pytest.fixture
def joint(server: ScriptedServer) -> ScriptedServer:
    server.takes_outcomes = True
    return server


def operations(server: ScriptedServer) -> list[str]:
    return [operation for operation, _ in server.requests if operation not in ("attachments", "sessions")]


def test_an_outcome_goes_with_the_next_check_of_its_conversation(joint: ScriptedServer) -> None:
    """So a sequential agent sends one request a call; parallel calls send their outcomes together."""
    with guard_of(joint, outcome_delay=1.0) as guard:
        for at in range(3):
            run(guard, replace(CALL, id=f"{at}"), lambda args: "x")
        calls = [replace(CALL, id=name) for name in "ab"]
        assert [guard.before(call).label for call in calls] == [0, 0]
        for call in calls:
            guard.use(call)
            guard.after(call, Outcome("x"))
        run(guard, replace(CALL, id="c"), lambda args: "x")
        assert operations(joint) == ["check", "calls", "calls", "calls", "check", "calls"]
        assert list(joint.recorded) == ["0", "1", "2", "a", "b"]
    assert operations(joint)[-1] == "record"  # closing sends what waits
    assert joint.in_flight == []


def test_an_outcome_is_sent_at_once_without_the_option_or_to_an_older_server(server: ScriptedServer) -> None:
    for takes, delay in ((True, 0.0), (False, 1.0)):
        server.takes_outcomes = takes
        run(guard_of(server, outcome_delay=delay), replace(CALL, conversation=f"{takes}"), lambda args: "x")
        assert server.in_flight == []


@pytest.mark.parametrize("states", [True, False])
def test_an_older_server_that_limits_no_tool_is_reported_once(
    server: ScriptedServer, states: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server.states_timeouts = states
    guard = guard_of(server)
    for names in ("a", "ab"):
        guard.attach([ToolSpec(name, {"type": "object"}) for name in names])
        guard.before(replace(CALL, id=names))
    assert [record.levelname for record in caplog.records if "'timeouts'" in record.message] == ["WARNING"][states:]


@pytest.mark.parametrize("request_of", ["end", "answer", "refuse", "withdraw", "settle"])
def test_every_other_request_follows_the_outcomes(joint: ScriptedServer, request_of: str) -> None:
    """In the order of the host."""
    guard, other = guard_of(joint, outcome_delay=1.0), replace(CALL, id="2")
    guard.before(other)
    run(guard, CALL, lambda args: "x")
    requests: dict[str, Callable[[], object]] = {
        "end": lambda: guard.end("c1"),
        "answer": lambda: guard.answer("c1", "hi", "x"),
        "refuse": lambda: guard.refuse(other, "unknown tool"),
        "withdraw": lambda: guard.withdraw(other, "the user left"),
        "settle": lambda: guard.settle("c1", "2", Outcome("x")),
    }
    requests[request_of]()
    sent = {"end": "finish", "settle": "record"}.get(request_of, request_of)
    assert operations(joint) == ["check", "check", "record", sent]


@pytest.mark.parametrize("delay", [0.0, 1.0])
def test_a_rule_sees_the_outcome_that_goes_with_its_check(tmp_path: Path, delay: float) -> None:
    """With a real server: a refund needs a login that did not fail."""
    pytest.importorskip("uvicorn")
    from tests.remote_guards import running_server

    policy = tmp_path / "shop.yaml"
    policy.write_text('version: 1\npolicies:\n  - {id: login, temporal: "G(tool:refund -> O tool:login)"}\n')
    with running_server(tmp_path / "server", policy) as server, server.guard(outcome_delay=delay) as guard:
        for conversation, failed in (("a", True), ("b", False)):
            login = HostCall("login", {}, conversation, "1")
            run(guard, login, lambda args: "x", partial(Outcome, failed=failed))
            assert guard.before(HostCall("refund", {}, conversation, "2")).label == failed


def test_an_outcome_that_no_check_takes_along_is_sent_soon(joint: ScriptedServer) -> None:
    """Also at the end of the interpreter, which waits for it, and after a message of the user."""
    guard = guard_of(joint, outcome_delay=0.1)
    run(guard, CALL, lambda args: "x")
    guard.turn("c1")
    assert joint.in_flight == ["1"]
    assert settled(joint)
    program = "import sys, tests.enforcement.remote.test_remote_guard as t; t.run_in_a_process(sys.argv[1])"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program, joint.url], check=True, env=env)
    assert joint.recorded["p"]["output"] == "x"


def run_in_a_process(url: str) -> None:
    guard = RemoteGuard(url, token=TOKEN, outcome_delay=0.5)
    run(guard, replace(CALL, id="p", conversation="p"), lambda args: "x")


def test_an_outcome_that_the_server_refuses_holds_up_no_check(joint: ScriptedServer) -> None:
    """As when it is sent alone: it is logged, the others are recorded, and the call is judged."""
    guard = guard_of(joint, outcome_delay=1.0)
    for name in "12":
        run(guard, replace(CALL, id=name), lambda args: "x")
    joint.in_flight.remove("2")
    joint.faults = [Fault("calls", acts=False, status=404, content=b"{}")]
    assert guard.before(replace(CALL, id="3")).label == 0
    assert operations(joint) == ["check", "calls", "record", "check"]


def test_a_lost_answer_to_outcomes_with_a_check_is_requested_again(joint: ScriptedServer) -> None:
    """With the same key, so the server acts once."""
    guard = guard_of(joint, outcome_delay=1.0)
    run(guard, CALL, lambda args: "x")
    joint.faults = [Fault("calls", cut=True)]
    assert guard.before(replace(CALL, id="2")).label == 0
    assert (joint.attempts["calls"], operations(joint), joint.in_flight) == (2, ["check", "calls"], ["2"])


# --- failures of the server

LOST = [
    Fault("check", acts=False, cut=True),
    Fault("check", cut=True),
    Fault("check", content=b'{"verdict": ', cut=True),
    Fault("check", acts=False, status=503, content=b"{}", head={"retry-after": "0"}),
    Fault("check", acts=False, status=502, content=b"<html>", kind="text/html"),
    Fault("check", acts=False, status=409, content=b"{}", head={"retry-after": "0"}),
    Fault("record", cut=True),
    Fault("record", status=504, content=b"gateway", kind="text/plain"),
    Fault("sessions", cut=True),
    Fault("attachments", acts=False, cut=True),
]


@pytest.mark.parametrize("fault", LOST, ids=lambda fault: f"{fault.operation} {fault.status} {fault.acts}")
def test_a_lost_answer_is_requested_again(fault: Fault) -> None:
    """The server acts once: the repetition has the same key."""
    with scripted_server(replace(fault)) as server:
        assert run(guard_of(server), CALL, lambda args: "x") == "x"
        operations = [operation for operation, _ in server.requests]
        assert sorted(operations) == ["attachments", "check", "record", "sessions"]
        assert server.attempts[fault.operation] == 2
        assert list(server.recorded) == ["1"]


ALLOWED = b'{"verdict": {"label": 0, "decision": "%s", "reasons": [], "violations": [], "details": {}, "answer": null,'
ALLOWED += b' "risk": null, "errors": [], "checked_by": "policy", "model_calls": 0, "elapsed_ms": 0}, "in_flight": %s}'
WRONG: dict[str, Fault] = {
    "html": Fault("check", content=b"<html>OK</html>", kind="text/html"),
    "no JSON": Fault("check", content=b"allow"),
    "duplicate key": Fault("check", content=b'{"in_flight": true, "in_flight": true}'),
    "no verdict": Fault("check", content=b'{"in_flight": true}'),
    "a list": Fault("check", content=b"[]"),
    "contradiction": Fault("check", content=ALLOWED % (b"deny", b"true")),
    "no place": Fault("check", content=ALLOWED % (b"allow", b"false")),
    "unknown decision": Fault("check", content=ALLOWED % (b"fine", b"true")),
    "a condition": Fault("check", content=(ALLOWED % (b"allow", b"true"))[:-1] + b', "if": "sunny"}'),
    "huge": Fault("check", content=b'"' + b"x" * 9_000_000 + b'"'),
    "compressed": Fault("check", head={"content-encoding": "gzip"}),
    "server error": Fault("check", acts=False, status=500, content=b'{"error": {"message": "the disk is full"}}'),
    "other version": Fault("check", acts=False, status=404, content=b"Not Found", kind="text/plain"),
    "other session": Fault("sessions", content=b'{"id": "c2"}'),
    "forbidden": Fault("check", acts=False, status=403, content=b'{"error": {"message": "not your session"}}'),
    "redirect": Fault("check", acts=False, status=307, head={"location": "/v1/elsewhere"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_unusable_answer_denies(name: str) -> None:
    """At once; and a call that the server may have allowed is withdrawn."""
    with scripted_server(replace(WRONG[name])) as server:
        guard = guard_of(server)
        verdict = guard.before(CALL)
        assert verdict.label == 1
        assert verdict.errors
        with pytest.raises(InputError):
            guard.use(CALL)
        assert settled(server)
        assert server.attempts["elsewhere"] == 0
        assert guard.before(CALL).label == 0  # the guard goes on


@pytest.mark.slow
def test_a_slow_answer_denies_in_time_and_the_late_allowance_is_withdrawn() -> None:
    """Synchronously and asynchronously."""
    with scripted_server(Fault("check", seconds=0.6), Fault("check", seconds=0.6)) as server:
        guard = guard_of(server, timeout=0.2)
        verdict = guard.before(CALL)
        assert server.delayed == 1  # its answer is still to come
        assert "did not answer" in verdict.errors[0]
        assert asyncio.run(guard.abefore(CALL)).label == 1
        time.sleep(0.7)
        assert settled(server)
        assert [operation for operation, _ in server.requests].count("withdraw") == 2


@pytest.mark.slow
def test_a_cancelled_check_is_withdrawn() -> None:
    """The agent's task ends while the server still thinks."""
    with scripted_server(Fault("check", seconds=0.5)) as server:
        guard = guard_of(server)

        async def cancelled() -> None:
            task = asyncio.ensure_future(guard.abefore(CALL))
            await asyncio.sleep(0.2)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(cancelled())
        time.sleep(0.6)
        assert settled(server)
        assert [body["call_id"] for operation, body in server.requests if operation == "withdraw"] == ["1"]


@pytest.mark.slow
def test_a_server_that_is_gone_denies_and_its_outcomes_wait() -> None:
    """The outcome arrives before the next check, so that check sees it."""
    down = [Fault("record", acts=False, cut=True) for _ in range(9)]
    with scripted_server(*down) as server:
        guard = guard_of(server, timeout=0.3)
        assert run(guard, CALL, lambda args: "x") == "x"
        assert server.recorded == {}
        server.faults.clear()
        guard.before(replace(CALL, id="2"))
        operations = [operation for operation, _ in server.requests]
        assert operations[-2:] == ["record", "check"]
    verdict = guard.before(replace(CALL, id="3"))
    assert verdict.label == 1
    assert guard.refuse(CALL, "unknown tool").label == 1
    assert guard.answer("c1", "hi", "x").label == 1
    assert guard.end("c1").label == 1


def test_a_guard_without_its_server_starts_and_denies() -> None:
    """The tools are attached once the server is there."""
    guard = RemoteGuard("http://127.0.0.1:9", token=TOKEN, timeout=0.3)
    assert guard.attach([ToolSpec("refund")]).lines() == []
    assert "cannot be reached" in guard.before(CALL).errors[0]
    assert guard.judges_answers


def test_tools_that_the_server_refuses_are_an_error_at_the_start() -> None:
    """As with a ToolGuard; the same tools are attached once."""
    problem = b'{"error": {"code": "invalid", "message": "two tools are named x", "where": "tools"}}'
    with scripted_server(Fault("attachments", acts=False, status=422, content=problem)) as server:
        guard = guard_of(server)
        with pytest.raises(InputError, match="tools: two tools are named x"):
            guard.attach([ToolSpec("x"), ToolSpec("x")])
        for _ in range(3):
            guard.attach([ToolSpec("x")])
        assert server.attempts["attachments"] == 2


def test_a_token_is_never_sent_after_a_redirect() -> None:
    """To no other server, whatever the first one says."""
    with scripted_server() as other, scripted_server() as server:
        server.faults += [
            Fault("check", acts=False, status=308, head={"location": f"{other.url}/v1/sessions/c1/check"})
        ]
        assert "redirects" in guard_of(server).before(CALL).errors[0]
        assert other.tokens == []


def test_calls_without_a_json_form_are_denied(server: ScriptedServer) -> None:
    """Before anything is sent; an output without one is recorded as unknown."""
    guard = guard_of(server)
    verdict = guard.before(replace(CALL, args={"amount": float("nan")}))
    assert "call.args.amount: is nan" in verdict.errors[0]
    assert guard.before(replace(CALL, conversation=None)).label == 1
    run(guard, CALL, lambda args: "\ud800")
    assert server.recorded["1"] == {"output": None, "failed": None, "ended": True}
    run(guard, CALL, lambda args: "x" * 9_000_000)
    assert server.recorded["1~2"]["output"] is None


# --- approvals


def test_an_agents_token_approves_nothing(server: ScriptedServer) -> None:
    """Whatever the host says, the call waits for the reviewers of the server."""
    guard = guard_of(server)
    verdict = guard.before(WIRE)
    assert verdict.decision is Decision.ESCALATE
    yes = Approval("approve", of=guard.request(WIRE, verdict).digest)
    assert guard.resolve(WIRE, yes).decision is Decision.ESCALATE
    assert guard.resolve(WIRE, Approval("approve")).label == 1  # for no call
    assert APPROVER not in str(server.tokens)
    server.approvals["ap_7"]["status"] = "approved"
    assert guard.resolve(WIRE, yes).label == 0
    assert guard.use(WIRE) == {"amount": 500}


def test_a_reviewer_of_the_host_has_a_token_of_its_own(server: ScriptedServer) -> None:
    """Only answers are sent with it; another process can resolve the call, too."""
    first, second = guard_of(server), guard_of(server, approver_token=APPROVER)
    verdict = first.before(WIRE)
    assert second.resolve(WIRE, Approval("approve", of=first.request(WIRE, verdict).digest)).label == 0
    assert second.use(WIRE) == {"amount": 500}
    assert server.tokens.count(f"Bearer {APPROVER}") == 2


def test_an_approver_of_the_host_may_edit_and_reject(server: ScriptedServer) -> None:
    """The edited call is the one that runs."""
    edit = Approval("edit", {"amount": 40})
    guard = guard_of(server, approver_token=APPROVER, approver=lambda request: edit)
    assert run(guard, WIRE, dict) == {"amount": 40}
    guard = guard_of(server, approver_token=APPROVER, approver=lambda request: False)
    with pytest.raises(ToolDenied, match="a reviewer rejected this call"):
        run(guard, replace(WIRE, id="8"), dict)
    assert server.approvals["ap_8"]["status"] == "rejected"


def test_a_call_waits_for_the_reviewers_of_the_server(server: ScriptedServer) -> None:
    """Their edits are validated by the tool; without an answer the call is denied."""

    def validated(args: Any) -> Any:
        return {"amount": int(args["amount"])}

    def review(answer: dict[str, Any]) -> None:
        while not server.approvals:
            time.sleep(0.01)
        next(iter(server.approvals.values())).update(answer)

    guard = guard_of(server, approver=wait_for_reviewers(5))
    for answer, result in (({"status": "approved"}, 500), ({"status": "edited", "args": {"amount": 40}}, 40)):
        server.approvals.clear()
        thread = threading.Thread(target=review, args=(answer,))
        thread.start()
        assert run(guard, replace(WIRE, validate_edit=validated), lambda args: args["amount"]) == result
        thread.join()
    server.approvals.clear()
    thread = threading.Thread(target=review, args=({"status": "edited", "args": {"amount": "40"}},))
    thread.start()
    with pytest.raises(ToolDenied, match="the edited arguments do not fit"):
        run(guard, replace(WIRE, validate_edit=validated), lambda args: pytest.fail("it ran"))
    thread.join()
    assert settled(server)


def _reviewed(url: str, token: str, answers: list[dict[str, Any]], shown: list[Any]) -> None:
    """Gives the waiting approvals of a server their answers, in order."""
    httpx = pytest.importorskip("httpx")
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}) as client:
        for answer in answers:
            until = time.monotonic() + 10
            while not (
                waiting := [a for a in client.get("/v1/approvals").json()["approvals"] if a["status"] == "pending"]
            ):
                assert time.monotonic() < until
                time.sleep(0.02)
            (approval,) = waiting
            shown.append(approval["call"]["args"]["amount"])
            path, body = f"/v1/approvals/{approval['id']}/answer", {"version": approval["version"], **answer}
            client.post(path, json=body).raise_for_status()


def _edit(amount: Any) -> dict[str, Any]:
    return {"choice": "edit", "args": {"amount": amount}}


YES, NO = {"choice": "approve"}, {"choice": "reject"}


@pytest.mark.parametrize(
    ("answers", "shown", "ran"),
    [
        ([YES], [500], 500),
        ([_edit(60)], [500], 60),
        ([_edit(400), _edit(300), YES], [500, 400, 300], 300),
        ([_edit(400), NO], [500, 400], "rejected"),
        ([_edit(400), _edit(5000)], [500, 400], "never"),
        ([_edit(400), _edit(300)], [500, 400], "no reviewer answered"),
    ],
    ids=str,
)
def test_a_call_waits_again_if_its_edit_needs_approval(
    tmp_path: Path, answers: list[dict[str, Any]], shown: list[int], ran: Any
) -> None:
    """With a real server, and within one wait; what runs is what the last reviewer saw or wrote."""
    pytest.importorskip("uvicorn")
    from guardagent.server.access import CallerRole
    from tests.remote_guards import running_server

    policy, seen = tmp_path / "shop.yaml", list[Any]()
    policy.write_text(WAITS)
    with running_server(tmp_path / "server", policy) as server:
        token = server.tokens[CallerRole.APPROVER]
        seconds = 1.5 if isinstance(ran, str) and "answered" in ran else 30.0
        thread = threading.Thread(target=_reviewed, args=(server.url, token, answers, seen))
        with RemoteGuard(
            server.url, token=server.tokens[CallerRole.AGENT], approver=wait_for_reviewers(seconds)
        ) as guard:
            thread.start()
            call = HostCall("refund", {"amount": 500}, "c1", "1")
            if isinstance(ran, str):
                with pytest.raises(ToolDenied, match=ran):
                    run(guard, call, lambda args: pytest.fail("it ran"))
            else:
                assert run(guard, call, lambda args: args["amount"]) == ran
            thread.join()
    assert seen == shown


def test_a_wait_without_an_answer_denies(server: ScriptedServer) -> None:
    """Also while the server is gone for a while."""
    guard = guard_of(server, approver=wait_for_reviewers(0.3))
    verdict = asyncio.run(guard.abefore(WIRE))
    assert (verdict.label, verdict.decision) == (1, Decision.DENY)
    assert "no reviewer answered" in verdict.errors[0]


# --- options and processes


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"url": "http://guard.example"}, "would show the token"),
        ({"url": "https://user@guard.example"}, "has a user"),
        ({"url": "guard.example"}, "is invalid"),
        ({"url": "ftp://guard.example"}, "is invalid"),
        ({"token": None}, "the token is missing"),
        ({"token": "two words"}, "without spaces"),
        ({"token_file": "x"}, "both"),
        ({"token": None, "token_file": "/nowhere/token"}, "cannot be read"),
        ({"policy": ""}, "policy is ''"),
        ({"timeout": 0}, "deadline is 0"),
        ({"aliases": {"a": "b", "b": "c"}}, "is an alias itself"),
        ({"approver": lambda request: True}, "need 'approver_token'"),
        ({"on_behalf_of": {"id": 1}}, "id"),
        ({"ca": "/nowhere/ca.pem"}, "certificates"),
        ({"outcome_delay": -1}, "outcome_delay is -1"),
    ],
)
def test_an_invalid_option_is_an_error_at_once(
    options: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No message has the token."""
    monkeypatch.delenv("GUARDAGENT_TOKEN", raising=False)
    with pytest.raises(InputError, match=problem) as refused:
        RemoteGuard(**{"url": "https://guard.example", "token": TOKEN, **options})
    assert TOKEN not in str(refused.value)


def test_a_token_file_is_read_again(server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So tokens can be rotated; the environment has one for the rest."""
    path = tmp_path / "token"
    path.write_text("first\n")
    guard = guard_of(server, token=None, token_file=path)
    guard.before(CALL)
    path.write_text("second\n")
    guard.before(replace(CALL, id="2"))
    assert {"Bearer first", "Bearer second"} == set(server.tokens)
    path.unlink()
    assert guard.before(replace(CALL, id="3")).label == 1
    monkeypatch.setenv("GUARDAGENT_TOKEN", "third")
    RemoteGuard(server.url).before(CALL)
    assert server.tokens[-1] == "Bearer third"


def test_facts_state_and_user_go_with_the_requests(server: ScriptedServer) -> None:
    """A function of the host that fails denies, without its message."""

    def facts(call: HostCall) -> dict[str, Any]:
        return {"role": "nurse", "tool": call.tool}

    guard = guard_of(server, facts=facts, state=lambda name: {"of": name}, on_behalf_of={"id": "ann"})
    guard.before(replace(CALL, facts={"role": "doctor"}))
    sent = dict(server.requests)
    assert sent["sessions"]["on_behalf_of"] == {"id": "ann"}
    assert sent["check"]["call"]["facts"] == {"role": "doctor", "tool": "refund"}
    assert sent["check"]["state"] == {"of": "c1"}

    def broken(_: Any) -> Any:
        raise RuntimeError("password=1234")

    verdict = guard_of(server, state=broken).before(CALL)
    assert verdict.errors == ("the state is unavailable: RuntimeError",)


def test_many_threads_share_a_guard(server: ScriptedServer) -> None:
    """One attachment and one session for each conversation; each call is recorded once."""
    guard = guard_of(server)

    def work(at: int) -> None:
        for turn in range(3):
            run(guard, HostCall("refund", {"amount": at}, f"c{at % 2}", f"{at}.{turn}"), lambda args: "x")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert len(server.recorded) == 18
    assert server.attempts["sessions"] == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_has_connections_of_its_own_and_no_permits(server: ScriptedServer) -> None:
    """The parent goes on with its own."""
    guard = guard_of(server)
    guard.before(CALL)

    def runs_its_own_call() -> bool:
        with pytest.raises(InputError):
            guard.use(CALL)
        return bool(run(guard, replace(CALL, id="child"), lambda args: "x") == "x")

    assert is_true_in_child(runs_its_own_call)
    assert guard.use(CALL) == {"amount": 50}
    guard.after(CALL, Outcome("x"))
    assert set(server.recorded) == {"1", "child"}


def test_a_closed_guard_denies(server: ScriptedServer) -> None:
    """Its repr has no token."""
    with guard_of(server) as guard:
        assert guard.before(CALL).label == 0
    assert guard.before(replace(CALL, id="2")).errors == ("the guard is closed",)
    assert TOKEN not in repr(guard)


def test_a_turn_is_sent_before_the_next_check(server: ScriptedServer) -> None:
    """It waits for nothing now, so that it does not block an event loop."""
    guard = guard_of(server)
    guard.notes("c1")["x"] = 1
    guard.turn("c1")
    guard.turn("c1")
    assert server.requests == []
    guard.before(CALL)
    assert [operation for operation, _ in server.requests] == ["attachments", "sessions", "turn", "check"]
    assert guard.end("c1").label == 0
    assert guard.notes("c1") == {}
