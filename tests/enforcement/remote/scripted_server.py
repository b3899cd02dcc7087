"""A small server with the interface of `guardagent serve`, which fails as a test tells it to."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from guardagent.enforcement.wire import write_verdict
from guardagent.types import Decision, Verdict, Violation

TOKEN, APPROVER = "agents-token", "approvers-token"
JSON = "application/json"


@dataclass(slots=True)
class Fault:
    """A failure of the answer to one request.

    Attributes:
        operation: the last part of its address.
        acts: whether the server does its work first.
        seconds: the time before it answers.
        status, content, kind, head: the answer; without a content, that of the work.
        cut: whether the connection ends before the answer does; at its start if there is no content.
    """

    operation: str
    acts: bool = True
    seconds: float = 0
    status: int = 200
    content: bytes | None = None
    kind: str = JSON
    head: dict[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass(slots=True)
class ScriptedServer:
    """Refunds up to 100 are allowed; a wire transfer needs an approval.

    Attributes:
        faults: the next failures, each for the first request of its operation.
        requests: (operation, body) of each request that did its work, without repetitions.
        attempts: the number of requests of each operation.
        in_flight: the ids of the calls in flight.
        recorded: the outcome of each call that has one.
        approvals: the status of each approval.
        tokens: the tokens that were sent.
        gone: whether open connections end without an answer, too.
        delayed: the number of answers that wait now.
        takes_outcomes: whether outcomes may come with a check.
        states_timeouts: whether it is a server that states the time of a call.
    """

    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, Any]] = field(default_factory=list)
    attempts: Counter[str] = field(default_factory=Counter)
    in_flight: list[str] = field(default_factory=list)
    recorded: dict[str, Any] = field(default_factory=dict)
    approvals: dict[str, dict[str, Any]] = field(default_factory=dict)
    tokens: list[str | None] = field(default_factory=list)
    answered: dict[str, tuple[int, Any]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""
    gone: bool = False
    delayed: int = 0
    takes_outcomes: bool = False
    states_timeouts: bool = True

    def fault(self, operation: str) -> Fault | None:
        with self.lock:
            self.attempts[operation] += 1
            fault = next((each_fault for each_fault in self.faults if each_fault.operation == operation), None)
            if fault is not None:
                self.faults.remove(fault)
            return fault

    def act(self, path: str, operation: str, body: Any, key: str | None, token: str | None) -> tuple[int, Any]:
        """Does the work of a request once; a repetition of its key gets the same answer."""
        with self.lock:
            if key is not None and (before := self.answered.get(key)) is not None:
                return before
            self.requests.append((operation, body))
            done = self._answer(path, operation, body, token)
            if key is not None:
                self.answered[key] = done
            return done

    def _answer(self, path: str, operation: str, body: Any, token: str | None) -> tuple[int, Any]:
        if "/approvals/" in path:
            return self._approval(path, operation, body, token)
        match operation:
            case "attachments":
                about = {"reads_messages": False, "judges_answers": False, "takes_outcomes": self.takes_outcomes}
                about |= {"states_timeouts": True} if self.states_timeouts else {}
                return 201, {"id": "at_1", "coverage": [], **about}
            case "sessions":
                return 201, {"id": body["id"]}
            case "check" | "resolve" | "calls":
                return 200, self._recorded(body) | self._judge(body, operation)
            case "record":
                return self._record(body)
            case "withdraw":
                if body["call_id"] in self.in_flight:
                    self.in_flight.remove(body["call_id"])
                return 200, {"status": "withdrawn"}
            case "refuse":
                return 200, {"verdict": write_verdict(Verdict(Decision.DENY, (body["problem"],), checked_by="policy"))}
            case "finish" | "answer":
                return 200, {"verdict": write_verdict(Verdict(Decision.ALLOW, checked_by="policy"))}
        return 200, {}

    def _recorded(self, body: Any) -> dict[str, Any]:
        outcomes = [self._record(outcome)[1] for outcome in body.get("outcomes", [])]
        return {"outcomes": outcomes} if outcomes else {}

    def _record(self, body: Any) -> tuple[int, Any]:
        if body["call_id"] not in self.in_flight:
            return 404, {"error": {"code": "not_found", "message": "no such call", "where": ""}}
        self.in_flight.remove(body["call_id"])
        self.recorded[body["call_id"]] = body["outcome"]
        return 200, {"status": "ok"}

    def _judge(self, body: Any, operation: str) -> Any:
        call, decision, approval, edited = body["call"], Decision.ALLOW, None, None
        if call["tool"] == "wire":
            approval = f"ap_{call['id']}"
            record = self.approvals.setdefault(approval, {"id": approval, "status": "pending", "version": "v1"})
            decision = {"pending": Decision.ESCALATE, "rejected": Decision.DENY}.get(record["status"], Decision.ALLOW)
            decision = decision if operation == "resolve" else Decision.ESCALATE
            edited = record.get("args")
        elif call["args"].get("amount", 0) > 100:
            decision = Decision.DENY
        violations = () if decision is Decision.ALLOW else (Violation("limit", "too much"),)
        verdict = Verdict(decision, tuple(rule.message for rule in violations), violations, checked_by="policy")
        placed = verdict.label == 0 and body.get("reserve", True)
        if placed:
            self.in_flight.append(call["id"])
        answer = {"verdict": write_verdict(verdict), "in_flight": placed}
        answer |= {"approval": approval} if decision is Decision.ESCALATE else {}
        return {**answer, "args": edited} if placed and edited is not None else answer

    def _approval(self, path: str, operation: str, body: Any, token: str | None) -> tuple[int, Any]:
        record = self.approvals[path.partition("/approvals/")[2].partition("/")[0].partition("?")[0]]
        if operation != "answer":
            return 200, record
        if token != f"Bearer {APPROVER}":
            return 403, {"error": {"code": "forbidden", "message": "an agent cannot approve", "where": ""}}
        if body["version"] != record["version"]:
            return 409, {"error": {"code": "conflict", "message": "it was answered", "where": "version"}}
        status = {"approve": "approved", "edit": "edited", "reject": "rejected"}[body["choice"]]
        record |= {"status": status, "version": "v2", **({"args": body["args"]} if "args" in body else {})}
        return 200, record


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._serve(None)

    def do_POST(self) -> None:
        self._serve(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def _serve(self, body: Any) -> None:
        script, token = self.server.script, self.headers["authorization"]
        if script.gone:
            self.close_connection = True
            return
        script.tokens.append(token)
        operation = self.path.partition("?")[0].rpartition("/")[2]
        fault = script.fault(operation) or Fault(operation)
        status, content = fault.status, fault.content
        if fault.acts:
            done, answer = script.act(self.path, operation, body, self.headers["idempotency-key"], token)
            if content is None:
                status, content = (done if status == 200 else status), json.dumps(answer).encode()
        script.delayed += 1
        time.sleep(fault.seconds)
        script.delayed -= 1
        self._answer(fault, status, content or b"")

    def _answer(self, fault: Fault, status: int, content: bytes) -> None:
        if fault.cut and fault.content is None:
            self.close_connection = True
            return
        self.send_response(status)
        for name, text in {"content-type": fault.kind, **fault.head}.items():
            self.send_header(name, text)
        self.send_header("content-length", str(len(content) + (100 if fault.cut else 0)))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = self.close_connection or fault.cut

    def log_message(self, *args: Any) -> None:
        """Says nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    script: ScriptedServer

    def handle_error(self, *args: Any) -> None:
        """A client that hangs up is part of the tests."""


@contextmanager
def scripted_server(*faults: Fault) -> Iterator[ScriptedServer]:
    """Runs a server on this machine."""
    with _Server(("127.0.0.1", 0), _Handler) as listening:
        script = listening.script = ScriptedServer(list(faults))
        script.url = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield script
        finally:
            script.gone = True
            listening.shutdown()
