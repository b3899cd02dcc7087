"""A trace is replayed event by event to its end; its single verdict locates every violation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardagent import InputError, Policies, Verdict, load_policies
from guardagent.batch.audit import (
    MAX_FINDINGS,
    Assumptions,
    TraceJudge,
    audit_trace,
    judge_together,
    judge_trace,
    judge_traces,
    read_approved,
)
from guardagent.batch.cases import judge_case
from guardagent.batch.records import Trace, read_case, read_trace
from guardagent.batch.traces import TraceStep
from guardagent.policy.load import compile_rules
from guardagent.types import Event
from tests.conftest import Cli, CommandResult
from tests.policy.rules import events
from tests.shop import LOGIN, call, trace, write_policies


@pytest.fixture
def policies(tmp_path: Path) -> Policies:
    return load_policies(write_policies(tmp_path))


def replayed(policies: Policies, *events: dict[str, Any], **more: Any) -> Verdict:
    line = json.dumps(trace("t", *events, **more))
    return judge_trace(policies, read_trace(line, "traces.jsonl", 1, policies.failed_output))


REFUND = call("refund", amount=5, order=1)
RECEIPT = call("receipt", order=1)


def test_a_trace_that_keeps_all_rules_is_allowed(policies: Policies) -> None:
    """Its details have the number of events."""
    verdict = replayed(policies, LOGIN, REFUND, RECEIPT)
    assert (verdict.decision, verdict.reasons, verdict.violations, verdict.errors) == ("allow", (), (), ())
    assert verdict.details == {"events": 3, "violations": {}}


def test_every_violation_has_its_place(policies: Policies) -> None:
    """Message and evidence have the index of the event."""
    verdict = replayed(policies, REFUND, LOGIN, call("refund", amount=500, order=1), RECEIPT)
    assert verdict.rules == ("login_first", "small_refunds")
    assert verdict.reasons == ("events[0] (refund): log in first", "events[2] (refund): at most 100")
    assert [(violation.policy, violation.evidence["event"]) for violation in verdict.violations] == [
        ("login_first", 0),
        ("small_refunds", 2),
    ]
    assert verdict.violations[1].evidence["call"]["args"]["amount"] == 500
    assert verdict.decision == "deny", "an approval would not allow the first call"


def test_an_obligation_pending_at_the_end_is_violated(policies: Policies) -> None:
    """The evidence of such a violation has no event."""
    verdict = replayed(policies, LOGIN, REFUND)
    assert (verdict.label, verdict.rules, verdict.reasons) == (1, ("receipt",), ("at the end: a receipt is owed",))
    assert verdict.violations[0].message == "at the end: a receipt is owed"
    assert verdict.violations[0].evidence["event"] is None


def test_the_same_rule_is_reported_at_every_event(policies: Policies) -> None:
    """Every violation is counted, and so many of them are listed; a reason stands once, with its first place."""
    verdict = replayed(policies, LOGIN, *[call("refund", amount=500, order=1)] * (MAX_FINDINGS + 20), RECEIPT)
    assert len(verdict.violations) == MAX_FINDINGS
    assert verdict.details["violations"] == {"small_refunds": MAX_FINDINGS + 20}
    assert verdict.reasons == ("events[1] (refund): at most 100",)


def test_an_unknown_value_has_its_place(policies: Policies) -> None:
    """It is in errors and not in rules; a long list of errors is shortened."""
    verdict = replayed(policies, LOGIN, call("buy", item="hat", price=1))
    assert (verdict.label, verdict.rules) == (1, ())
    assert verdict.errors[0].startswith("events[1] (buy): in_stock: ")
    assert verdict.reasons[0].startswith("could not be checked: events[1] (buy): in_stock: ")
    items = [call("buy", item=f"hat {at}", price=1) for at in range(MAX_FINDINGS + 7)]
    many = replayed(policies, *items, state={"stock": {}})
    assert len(many.errors) == MAX_FINDINGS + 1
    assert "hat 99" in many.errors[99]
    assert many.errors[-1] == "and 7 more"


def test_state_and_facts_are_those_of_the_moment(policies: Policies) -> None:
    """A state given at an event holds from then on."""
    hat = call("buy", item="hat", price=1)
    later = {**hat, "state": {"stock": {"hat": 0}}}
    verdict = replayed(policies, hat, later, hat, state={"stock": {"hat": 2}})
    assert [violation.evidence["event"] for violation in verdict.violations] == [1, 2]


def test_a_warning_allows(policies: Policies) -> None:
    """It is reported all the same."""
    verdict = replayed(policies, call("buy", item="hat", price=50), state={"stock": {"hat": 2}})
    assert (verdict.decision, verdict.label, verdict.rules) == ("warn", 0, ("cheap",))


def test_steps_without_a_call_count(tmp_path: Path) -> None:
    """Actions, decisions and tags have happened, and can satisfy a rule."""
    text = "version: 1\npolicies:\n  - {id: r, temporal: 'G(action:pay -> O decision:approved)'}\n"
    policies = load_policies(write_policies(tmp_path, text))
    assert replayed(policies, {"decision": "approved"}, {"action": "pay"}).label == 0
    assert replayed(policies, {"action": "pay"}).reasons[0].startswith("events[0] (pay): ")


def test_a_trace_without_events_has_an_end(tmp_path: Path) -> None:
    """An obligation may be unmet at its end."""
    text = "version: 1\npolicies:\n  - {id: r, temporal: 'exists(log(), True)'}\n"
    assert replayed(load_policies(write_policies(tmp_path, text))).rules == ("r",)


RULES = (
    "G !tool:drop",
    "tool:get -> F tool:send",
    "tool:get -> F[<=2] tool:send",
    "tool:get U tool:send",
    "G(@readers -> O action:login)",
    "F decision:yes",
    "urgent -> F tool:send",
    "G(!pii || Y action:login)",
    "(G !tool:drop) AND (F tool:send)",
    "(G !tool:drop) OR (F tool:send)",
    "NOT (F tool:send)",
    "forall(drop(), False)",
)
SETTINGS = ("", "failed_output: ^Error", "unlisted: deny", "tools: [get, list, send, drop]")


@pytest.fixture(scope="module")
def many_policies(tmp_path_factory: pytest.TempPathFactory) -> list[Policies]:
    """Every pair of rules that follow each other, with every setting."""
    folder, many_policies = tmp_path_factory.mktemp("policies"), []
    for setting in SETTINGS:
        for at, pair in enumerate(zip(RULES, RULES[1:] + RULES[:1], strict=True)):
            rules = [{"id": f"r{number}", "temporal": rule} for number, rule in enumerate(pair)]
            path = folder / f"{SETTINGS.index(setting)}-{at}.yaml"
            lines = ("version: 1", setting, "tags: {readers: [get, list]}", f"policies: {json.dumps(rules)}")
            path.write_text("\n".join(lines))
            many_policies.append(load_policies(path))
    return many_policies


near_misses = st.builds(Event, st.sampled_from(["Send", "new"]), action=st.sampled_from([None, "Login"]))


@settings(deadline=None)
@given(st.lists(events | near_misses, max_size=6))
def test_an_audit_agrees_with_a_session(many_policies: list[Policies], happened: Sequence[Event]) -> None:
    """For any rules: propositional ones that all hold are decided without a session."""
    for policies in many_policies:
        session = policies.session()
        verdicts = [session.observe(event) for event in happened] + [session.finish()]
        verdict = judge_trace(policies, Trace("t", tuple(map(TraceStep, happened))))
        assert verdict.decision == max(verdict.decision for verdict in verdicts)
        assert set(verdict.rules) == {rule for verdict in verdicts for rule in verdict.rules}
        assert bool(verdict.reasons or verdict.errors) == any(verdict.reasons or verdict.errors for verdict in verdicts)
        assert verdict.details["events"] == len(happened)


def test_too_deep_an_output_allows_nothing(tmp_path: Path) -> None:
    """An output that a session cannot hold denies its trace alone, even if the automaton accepts the call."""
    policies = load_policies(write_policies(tmp_path, "version: 1\npolicies:\n  - {id: r, temporal: G !tool:drop}\n"))
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    happened, fine = (Trace("t", (TraceStep(Event("get", output=output, status="ok")),)) for output in (deep, "fine"))
    with pytest.raises(RecursionError):
        judge_trace(policies, happened)
    verdicts = judge_traces(policies, [fine, happened, fine])
    assert [verdict.label for verdict in verdicts] == [0, 1, 0]
    assert "RecursionError" in verdicts[1].errors[0]
    assert {verdict.checked_by for verdict in verdicts} == {"policy"}


def timed(*times: Any) -> Verdict:
    """The verdict on payments at these times: at most one a day, and only in office hours."""
    limit, hours = "forall(pay(), count(f:pay(), within 24h) < 1)", "forall(pay(), hour(now) >= 9)"
    events = [{"tool": "pay"} if time is None else {"tool": "pay", "time": time} for time in times]
    return judge_trace(compile_rules([limit, hours]), read_trace(json.dumps({"id": 1, "events": events}), "t", 1))


@pytest.mark.parametrize(
    ("times", "errors"),
    [
        (["2026-01-01T09:00+01:00", "2026-01-02T09:00:01+01:00"], []),
        (["2026-01-01T09:00+01:00", "2026-01-02T08:00:01Z"], ["hour(now) (8) >= 9"]),
        (["2026-01-01T09:00+01:00", "2026-01-02T09:00+01:00"], ["within 1d) (1) < 1"]),
        ([None, "2026-01-01T09:00+01:00"], ["the time is unknown", "the time of 'pay' (call 1) is unknown"]),
        (["2026-01-02T09:00+01:00", "2026-01-01T09:00+01:00"], ["the clock went back: it is 86400 seconds before"]),
        ([0], ["the clock of the session has no time zone"]),
    ],
)
def test_each_event_is_judged_at_its_time(times: list[Any], errors: list[str]) -> None:
    """The clock of the machine plays no part: without times a window is unknown."""
    verdict = timed(*times)
    assert bool(verdict.label) is bool(errors)
    for error in errors:
        assert any(error in reason for reason in verdict.reasons)


# --- auditing a policy with counters: all traces of a file, in the order of time


POLICY = """
version: 1
counters:
  refunds: {on: refund(customer=c, amount=a), key: c, sum: a, window: 1h}
policies:
  - {id: hourly, temporal: 'forall(refund(customer=c, amount=a), counter(refunds, c) + a <= 500)'}
"""


def step(time: Any, amount: Any, customer: str = "bob", *, failed: bool = False) -> dict[str, Any]:
    return {"tool": "refund", "args": {"customer": customer, "amount": amount}, "failed": failed, "time": time}


def trace_line(name: str, *steps: dict[str, Any]) -> str:
    return json.dumps({"id": name, "events": steps})


def counted_trace(name: str, *steps: dict[str, Any]) -> Trace:
    return read_trace(trace_line(name, *steps), "t.jsonl", 1)


@pytest.fixture
def counting() -> Policies:
    return load_policies(text=POLICY)


def labels(counting: Policies, *traces: Trace) -> list[int]:
    return [verdict.label for verdict in judge_together(counting, traces)]


def test_events_count_in_the_order_of_their_times(counting: Policies) -> None:
    """The later call exceeds the limit, whatever the order of the traces."""
    late, early = counted_trace("late", step(200, 300)), counted_trace("early", step(100, 300))
    assert labels(counting, late, early) == [1, 0]
    assert labels(counting, early, late) == [0, 1]


def test_interleaved_events_count_each_other(counting: Policies) -> None:
    first = counted_trace("first", step(100, 200), step(300, 200))
    assert labels(counting, first, counted_trace("second", step(200, 200))) == [1, 0]
    assert labels(counting, first, counted_trace("second", step(200, 200, failed=True))) == [0, 0]
    assert labels(counting, first, counted_trace("second", step(200, 200, "eve"))) == [0, 0]
    assert labels(counting, first, counted_trace("second", step(4000, 200))) == [0, 0]


def test_a_violating_call_ran_and_counts(counting: Policies) -> None:
    assert labels(counting, counted_trace("a", step(1, 600)), counted_trace("b", step(2, 1))) == [1, 1]
    assert labels(counting, counted_trace("empty"), counted_trace("unknown", step(1, None))) == [0, 1]


def test_a_trace_keeps_its_principal() -> None:
    """Rules about it are judged as in a policy without counters."""
    scoped = load_policies(
        text=f"{POLICY}  - {{id: clerks, temporal: 'forall(refund(), \"clerk\" in principal.roles)'}}\n"
    )
    text = json.dumps({"id": "t", "principal": {"id": "a", "roles": ["clerk"]}, "events": [step(1, 5)]})
    assert labels(scoped, read_trace(text, "t.jsonl", 1), counted_trace("nobody", step(2, 5))) == [0, 1]


def test_times_can_be_strings(counting: Policies) -> None:
    early, late = step("2026-01-31T09:30:00Z", 300), step("2026-01-31T10:45:00+01:00", 300)
    assert labels(counting, counted_trace("late", late), counted_trace("early", early)) == [1, 0]
    with pytest.raises(InputError, match=r"t.jsonl:1: events\[0\].time"):
        counted_trace("a", step("yesterday", 1))
    with pytest.raises(InputError, match="seconds since the epoch"):
        counted_trace("a", step("2026-01-31T09:30:00", 1))


Audit = Cli


@pytest.fixture
def audit(cli: Cli, tmp_path: Path) -> Audit:
    """Runs the command on some lines."""
    (tmp_path / "policy.yaml").write_text(POLICY)

    def command(lines: Sequence[str], *options: str) -> CommandResult:
        (tmp_path / "t.jsonl").write_text("\n".join(lines))
        return cli("audit", tmp_path / "t.jsonl", "--policies", tmp_path / "policy.yaml", *options)

    return command


def test_the_command_keeps_the_order_of_the_lines(audit: Audit) -> None:
    """An unreadable line is reported, and the others are judged."""
    ran = audit([trace_line("late", step(200, 300)), "{", trace_line("early", step(100, 300))], "--json")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.status == 2
    assert [(row["id"], row["label"]) for row in rows if "label" in row] == [("late", 1), ("early", 0)]


@pytest.mark.parametrize(
    ("lines", "options", "says"),
    [
        ([trace_line("a", step(None, 1))], (), r"t.jsonl:1: events[0] has no 'time'; the policy has counters"),
        ([trace_line("a", step(2, 1), step(1, 1))], (), r"the 'time' of events[1] is earlier than that"),
        ([trace_line("a", step(2, 1))], ("--workers", "2"), "run it without '--workers'"),
        ([trace_line("a", step(2, 1))], ("--resume", "--out", "o.jsonl"), "run it without '--resume'"),
    ],
)
def test_the_command_says_what_it_cannot_replay(
    audit: Audit, lines: Sequence[str], options: Sequence[str], says: str
) -> None:
    ran = audit(lines, *options)
    assert ran.status == 2
    assert says in " ".join(ran.err.split())


def test_a_judge_without_counters_needs_no_times() -> None:
    counting = load_policies(text="version: 1\npolicies: [{id: a, temporal: 'G !tool:x'}]")
    judge = TraceJudge("missing.jsonl")
    judge.prepare(counting, workers=2)
    assert judge(counting, counted_trace("a", step(None, 1))).label == 0


@pytest.mark.parametrize(
    ("amounts", "decision", "rules", "tools"),
    [
        ((300, 100), "deny", (), "'look'"),
        ((300, 300), "deny", (), "'look', 'refund'"),
        ((300, 600), "deny", ("hourly",), "'look'"),
    ],
)
def test_a_count_that_depends_on_an_unknown_outcome_is_unchecked(
    amounts: tuple[int, int], decision: str, rules: tuple[str, ...], tools: str
) -> None:
    """A refund counts only if it succeeded, in whichever trace; one that is too large alone stays a violation."""
    policies = load_policies(text=f"{POLICY}  - {{id: first, temporal: 'G(tool:refund -> O tool:look)'}}\n")
    looked = {"tool": "look", "args": {}, "time": 1}
    events = [unknown(looked, step(2 + at, amount)) for at, amount in enumerate(amounts)]
    traces = [counted_trace(f"t{at}", *steps) for at, steps in enumerate(events)]
    verdict = judge_together(policies, traces)[1]
    assert (verdict.decision, verdict.rules) == (decision, rules)
    assert verdict.errors == (f"the outcome of {tools} is unknown; set 'failed_output' in the policy or '--assume ok'",)
    assumed = judge_together(policies, traces, Assumptions(ok=True))[1]
    assert (assumed.rules, assumed.errors) == (("hourly",) if sum(amounts) > 500 else (), ())


def test_counters_of_a_case_begin_at_zero(counting: Policies) -> None:
    """Its history counts."""
    history = [{"tool": "refund", "args": {"customer": "bob", "amount": 300}, "failed": False, "time": 1000}]
    for amount, label in ((200, 0), (201, 1), (200, 0)):
        proposed = {"tool": "refund", "args": {"customer": "bob", "amount": amount}}
        case = read_case(json.dumps({"id": 1, "history": history, "proposed": proposed, "now": 2000}), "c", 1)
        assert judge_case(counting, case).label == label
    timeless = read_case(json.dumps({"id": 1, "proposed": proposed}), "c", 1)
    assert (
        "expected 'time' of each call in the history, and 'now' of the case" in judge_case(counting, timeless).errors[0]
    )


ORDER = """\
version: 1
unlisted: allow
policies:
- {id: first, temporal: "G(tool:pay -> O tool:look)"}
- {id: after, temporal: "after(pay(order=o), true, receipt(order=o), true)"}
- {id: before, temporal: "before(send(order=o), true, look(order=o), true)"}
- {id: big, temporal: "forall(pay(amount=a), a <= 100)", on_violation: escalate}
- {id: never, temporal: "G !tool:wipe"}
"""
LOOK, PAY, WIPE = call("look", order=1), call("pay", order=1, amount=5), call("wipe")
BIG, SENT, RECEIVED = call("pay", order=1, amount=500), call("send", order=1), call("receipt", order=1)


def unknown(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: value for key, value in event.items() if key not in ("output", "failed")} for event in events]


@pytest.mark.parametrize(
    ("events", "decision", "rules", "tool"),
    [
        ([LOOK], "allow", (), None),
        ([LOOK, PAY, RECEIVED], "deny", (), "'look', 'receipt'"),
        ([LOOK, SENT], "deny", (), "'look'"),
        ([SENT], "deny", ("before",), None),
        ([PAY, RECEIVED], "deny", ("first",), "'pay', 'receipt'"),
        ([WIPE], "deny", ("never",), None),
        ([LOOK, WIPE, SENT], "deny", ("never",), "'look'"),
        ([LOOK, BIG, RECEIVED], "deny", ("big",), "'look', 'receipt'"),
        ([call("other")], "allow", (), None),
    ],
)
def test_a_violation_that_depends_on_an_unknown_outcome_is_unchecked(
    tmp_path: Path, events: list[dict[str, Any]], decision: str, rules: tuple[str, ...], tool: str | None
) -> None:
    """One that is certain stays; with '--assume ok' the trace is judged as if each call had succeeded."""
    (tmp_path / "p.yaml").write_text(ORDER)
    policies = load_policies(tmp_path / "p.yaml")
    read = read_trace(json.dumps(trace("t", *unknown(*events))), "t", 1)
    verdict = audit_trace(policies, read)
    assert (verdict.decision, verdict.rules) == (decision, rules)
    assert len(verdict.errors) == (tool is not None)
    assert all(f"the outcome of {tool} is unknown; set 'failed_output'" in error for error in verdict.errors)
    assumed = audit_trace(policies, read, Assumptions(ok=True))
    assert assumed.errors == ()
    assert set(assumed.rules) == set(rules) | ({"after"} if PAY in events and RECEIVED not in events else set())
    assert judge_traces(policies, [read])[0].rules == rules


LOOKED = """
def check(agent_input, agent_output, facts):
    denied, _ = check_unsuccessful(agent_input)
    return {"label": int(denied), "reasons": ["nobody looked"] if denied else [], "details": {}, "answer": None}
"""
UNSUCCESSFUL = """
def check_unsuccessful(text: str) -> tuple[bool, dict[str, str]]:
    'Whether a look-up is not known to have succeeded.'
    return '"tool": "look"' in text and '"status": "ok"' not in text, {}
"""


def test_a_request_that_depends_on_an_unknown_outcome_is_unchecked(tmp_path: Path) -> None:
    """So are the rules beside it. A model is asked once, and what it says stands."""
    (tmp_path / "looked.py").write_text(LOOKED)
    (tmp_path / "tools.py").write_text(UNSUCCESSFUL)
    (tmp_path / "p.yaml").write_text(
        f"toolbox: tools.py\n{ORDER}- {{id: looked, request: Look first., program: looked.py}}\n"
    )
    policies = load_policies(tmp_path / "p.yaml")
    read = read_trace(json.dumps(trace("t", *unknown(LOOK, PAY, RECEIVED))), "t", 1)
    verdict = audit_trace(policies, read)
    assert (verdict.decision, verdict.rules, len(verdict.errors)) == ("deny", (), 1)
    assert audit_trace(policies, read, Assumptions(ok=True)).decision == "allow"
    policies.requests[0][1].asks_model = True  # type: ignore[attr-defined]
    verdict = audit_trace(policies, read)
    assert (verdict.rules, len(verdict.errors)) == (("looked",), 1)


@pytest.mark.parametrize(
    ("events", "approved", "decision", "rules"),
    [
        ([LOOK, BIG, RECEIVED], {}, "escalate", ("big",)),
        ([LOOK, BIG, RECEIVED], {"t": {1}}, "allow", ()),
        ([LOOK, BIG, RECEIVED], {"t": {None}}, "allow", ()),
        ([LOOK, BIG, RECEIVED], {"t": {0}}, "escalate", ("big",)),
        ([LOOK, BIG, RECEIVED], {"u": {1}}, "escalate", ("big",)),
        ([LOOK, BIG, BIG, RECEIVED], {"t": {1}}, "escalate", ("big",)),
        ([BIG, RECEIVED], {"t": {0}}, "deny", ("first",)),
        ([BIG, RECEIVED], {}, "deny", ("big", "first")),
        ([LOOK, BIG, RECEIVED, WIPE], {}, "deny", ("big", "never")),
        ([LOOK, BIG, RECEIVED, WIPE], {"t": {3}}, "deny", ("big", "never")),
        ([LOOK, BIG], {"t": {1}}, "deny", ("after",)),
        ([LOOK, PAY, RECEIVED], {"t": {1}}, "allow", ()),
    ],
)
def test_an_approval_lifts_what_escalates_and_nothing_else(
    tmp_path: Path, events: list[dict[str, Any]], approved: dict[str, set[int | None]], decision: str, rules: Any
) -> None:
    """A broken rule that blocks denies the trace, whatever else escalates."""
    (tmp_path / "p.yaml").write_text(ORDER)
    policies = load_policies(tmp_path / "p.yaml")
    read = read_trace(json.dumps(trace("t", *({**event, "failed": False} for event in events))), "t", 1)
    assumed = Assumptions(approved={name: frozenset(some) for name, some in approved.items()})
    verdict = audit_trace(policies, read, assumed)
    assert (verdict.decision, verdict.rules) == (decision, rules)
    assert bool(verdict.reasons) == (decision != "allow")


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", "not JSON"), ("{}", "has no 'trace'"), ('{"trace": "a", "event": "1"}', "a whole number"), ("[]", "a list")],
)
def test_a_line_that_approves_nothing_is_an_error(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"trace": 7, "event": 3}}\n{line}\n')
    with pytest.raises(InputError, match=message):
        read_approved(str(tmp_path / "a.jsonl"))


def test_facts_approvals_and_outcomes_are_options(cli: Cli, tmp_path: Path) -> None:
    """Traces that only needed approval are counted apart, and a cause that many share is printed once."""
    policy = f"{ORDER}- {{id: staff, temporal: \"forall(pay(), fact(role) == 'staff')\"}}\n"
    (tmp_path / "p.yaml").write_text(policy)
    lines = [trace(f"t{at}", *unknown(LOOK, event, RECEIVED)) for at, event in enumerate([PAY, PAY, BIG])]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "a.jsonl").write_text('{"trace": "t2", "event": 1}')
    for engine in ([], ["--engine", "local", "--workers", "1"]):
        base = ["audit", tmp_path / "t.jsonl", "-p", tmp_path / "p.yaml", "--facts", '{"role": "staff"}', *engine]
        ran = cli(*base)
        assert (ran.status, ran.err.count("the outcome of 'look', 'receipt' is unknown")) == (3, 1)
        assert "2 traces could not be fully checked: " in ran.err
        ran = cli(*base, "--assume", "ok")
        assert (ran.status, "3 traces: 2 allowed, 1 only needed approval, 0 denied" in ran.err) == (1, True)
        assert cli(*base, "--assume", "ok", "--approved", tmp_path / "a.jsonl").status == 0
    assert "expected 'ok'" in cli(*base, "--assume", "failed").err


@pytest.mark.parametrize(
    "row", ['{"trace": "c1", "event": null}', '{"trace": "c1", "event": true}', '{"event": 1}', "[]"]
)
def test_a_row_of_approved_events_says_which(row: str, tmp_path: Path) -> None:
    """A null in place of an index does not approve all events of a trace."""
    (tmp_path / "approved.jsonl").write_text(f"{row}\n")
    with pytest.raises(InputError, match=r"approved\.jsonl:1: .*expected"):
        read_approved(str(tmp_path / "approved.jsonl"))
