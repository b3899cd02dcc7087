"""`lint` finds rules that contradict each other in one file, and nothing in near twins that do not."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from guardagent.packs.catalogue import packs as packs_of_the_catalogue
from guardagent.policy.lint import LintFinding, lint, lint_report
from guardagent.policy.load import load_policies
from guardagent.policy.logic.sessions import KnownCalls
from tests.policy.lint.contradictions import PAIRS, Pair, contradictory, rule

# A document states these in different places; the comment is what its reader would object to.
PLANTED = Pair(
    "a document with eight contradictions",
    [
        "G !tool:wire",  # "We never send wire transfers."
        'forall(wire(purpose=p), p == "payroll")',  # "Wire transfers are for the payroll only."
        "forall(refund(date=d), now - d <= 30d)",  # "Refunds are possible for 30 days …"
        "forall(refund(date=d), now - d >= 60d)",  # "… and not before 60 days have passed."
        'after(f:open_case(), true, notify(to=t), t == "customer")',  # "The customer hears of every new case."
        'forall(notify(to=t), t in ["support", "legal"])',  # "Messages go to support and legal only."
        "before(ship(order=o), true, invoice(order=o), true)",  # "We ship what has an invoice …"
        "before(invoice(order=o), true, ship(order=o), true)",  # "… and write the invoice once it has left."
        'forall(export(), "auditor" in principal.roles)',  # "Only auditors export data."
        rule("[auditor] G !tool:export"),  # "Auditors have no access to exports."
        rule("[escalate] forall(discount(percent=p), p <= 20)"),  # "Over 20%, ask the manager."
        "forall(discount(percent=p), p <= 10)",  # "Nobody grants more than 10%."
        "forall(deploy(), weekday(now) <= 5)",  # "Releases happen on workdays …"
        "forall(deploy(), weekday(now) >= 6)",  # "… at the weekend, when nobody is disturbed."
        'forall(book(cabin="first"), fact(member) == "gold")',  # "First class is for gold members …"
        'forall(book(cabin="first"), fact(member) == "staff")',  # "… and reserved for staff."
    ],
    contradictory(
        "r1 wire, r3 refund, r4 open_case, r7 invoice, r6 ship, r9 export, r10 discount, r13 deploy, r14 book"
    ),
    [],
)


def findings(pair: Pair, rules: list[Any], folder: Path) -> list[LintFinding]:
    path = folder / "policies.yaml"
    path.write_text(json.dumps(pair.file(rules)))
    return lint(path)


@pytest.mark.parametrize("pair", [*PAIRS, PLANTED], ids=lambda pair: pair.name)
def test_rules_that_contradict_each_other_are_found(pair: Pair, tmp_path: Path) -> None:
    """There is a finding with an example, and no other finding."""
    pair_findings = findings(pair, pair.rules, tmp_path)
    assert {
        (pair_finding.kind, pair_finding.policy, pair_finding.tool) for pair_finding in pair_findings
    } == pair.findings
    assert all(pair_finding.message and pair_finding.example for pair_finding in pair_findings)
    for pair_finding in pair_findings:
        assert {pair_finding.policy, *pair_finding.others} == {*re.findall(r"'(r\d+)'", pair_finding.message)}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_twin_without_the_contradiction_has_no_findings(pair: Pair, tmp_path: Path) -> None:
    """It has other tools or roles, ranges that overlap, or an exception."""
    assert findings(pair, pair.twin, tmp_path) == []


def test_the_message_names_both_rules(tmp_path: Path) -> None:
    """A ban beside a permission is wrong, or lacks an exception."""
    (finding,) = findings(PAIRS[0], PAIRS[0].rules, tmp_path)
    assert finding.message == (
        "rule 'r0' forbids every call of 'refund', so rule 'r1', which says when one is allowed, never decides; "
        "one of the rules is wrong, or 'r1' is an exception that rule 'r0' has to name"
    )
    assert finding.example == "refund(date=0), where now is 0, allowed by rule 'r1', is denied by rule 'r0'"


@pytest.mark.parametrize(
    ("loose", "tight"),
    [
        ("before(refund(order=o), true, get_order(), true)", "before(refund(order=o), true, get_order(order=o), true)"),
        ("forall(refund(order=o), some(get_order()))", "forall(refund(order=o), some(get_order(order=o)))"),
        (
            "after(f:open(handle=h), true, close(), true)",
            "after(f:open(handle=h), true, close(x=y), y == args(f).handle)",
        ),
        ("before(refund(order=o), true, get_order(order=p), true)", "before(refund(), true, get_order(), true)"),
    ],
)
def test_an_argument_that_is_not_compared_is_underconstrained(loose: str, tight: str, tmp_path: Path) -> None:
    """An earlier call for another order satisfies the rule."""
    (finding,) = findings(PAIRS[0], [loose], tmp_path)
    assert (finding.kind, finding.policy) == ("underconstrained", "r0")
    assert "name the same" in finding.message
    assert findings(PAIRS[0], [tight], tmp_path) == []


@pytest.mark.parametrize(
    ("condition", "is_loose"),
    [
        ("!known(a.n) || a.n <= 5", True),
        ('!has(a, "n") || !known(a.n) || a.n <= 5', True),
        ('has(a, "m") -> !known(a.n) || a.n <= 5', True),
        ('has(a, "n") -> !known(a.n) || a.n <= 5', False),
        ('(has(a, "n") && !known(a["n"])) || a.n <= 5', False),
        ('!(has(a, "n") && known(a.n)) || a.n <= 5', True),
    ],
)
def test_a_field_that_may_be_null_needs_a_mapping(condition: str, tmp_path: Path, *, is_loose: bool) -> None:
    kinds = [finding.kind for finding in findings(PAIRS[0], [f"forall(refund(order=a), {condition})"], tmp_path)]
    assert kinds == ["underconstrained"] * is_loose


def test_an_argument_that_the_other_tool_lacks_is_compared_otherwise(tmp_path: Path) -> None:
    """The declaration of the tool decides."""
    pair = Pair(
        "", ["before(refund(order=o), true, login(), true)"], set(), [], {"tools": {"refund": ["order"], "login": []}}
    )
    (finding,) = findings(pair, pair.rules, tmp_path)
    assert "compare it with the arguments or the output of 'login'" in finding.message


def test_a_case_that_only_earlier_calls_make_possible_is_reachable(tmp_path: Path) -> None:
    """The other conditions hold for the earlier call too, but the case need not."""
    step = "forall(step(n=n), (n == 2 -> fact(ok) == true) && (n == 1 || some(f:step(n=1))))"
    assert findings(PAIRS[0], [step], tmp_path) == []


def test_a_contradiction_within_a_scope_says_nothing_of_others(tmp_path: Path) -> None:
    """Interns can never call `b`, but others can, so a conversation can end well."""
    rules = ["exists(b(n=1))", rule("[intern] forall(b(n=n), n == 2)"), rule("[intern] forall(b(n=n), n != 2)")]
    (finding,) = findings(PAIRS[0], rules, tmp_path)
    assert (finding.kind, finding.tool) == ("contradictory", "b")
    assert "by anyone in the scope of rule 'r1'" in finding.message


@pytest.mark.parametrize(
    "rules",
    [
        ["after(open(), true, *(n=1), true)", "forall(open(n=n), n != 1)"],
        ["exists(*(n=1))", "forall(open(n=n), n != 1)"],
        ["G !tool:open", "forall(*(n=n), n != 1)"],
        ["forall(*(n=n), n != 1)", rule("[a] forall(*(n=n), n != 2)")],
    ],
)
def test_any_tool_is_more_than_the_named_ones(rules: list[Any], tmp_path: Path) -> None:
    """A tool that no rule names can meet the obligation, and is judged by the rule."""
    assert findings(PAIRS[0], rules, tmp_path) == []


def test_calls_that_were_judged_need_no_proof(tmp_path: Path) -> None:
    """The findings are the same; a claim about a tool or rule silences its own finding alone."""
    path = tmp_path / "policies.yaml"
    path.write_text(
        "version: 1\nunlisted: allow\npolicies:\n"
        "  - {id: small, temporal: 'forall(refund(amount=a), a <= 9)'}\n"
        "  - {id: large, temporal: 'forall(wire(amount=a), a > 9)'}\n"
        "  - {id: none, temporal: 'forall(wire(amount=a), a < 5)'}\n"
        "  - {id: always, temporal: 'forall(pay(amount=a), a > 1 || a <= 1)'}\n"
    )
    plain = {
        (finding.kind, finding.policy or finding.tool)
        for finding in lint_report(path).findings
        if finding.kind != "uncovered"
    }
    assert plain == {("contradictory", "none"), ("vacuous", "always")}
    shown = KnownCalls.of(["refund"], ["small", "large", "none"])
    findings = [lint_report(path, known=known).findings for known in (shown, KnownCalls())]
    assert [finding.message for finding in findings[0]] == [finding.message for finding in findings[1]]
    assert lint_report(path, ["vacuous"], known=KnownCalls.of([], ["always"])).findings == ()


def test_everything_ends_within_the_time_and_what_is_open_is_named(tmp_path: Path) -> None:
    """Also what is no question to the solver, such as cases that rules speak of."""
    rules = [f"forall(tool_{at % 9}(a=a, b=b), a > {at} -> b < {at} || fact(f{at % 5}) == b)" for at in range(60)]
    path = tmp_path / "policies.yaml"
    path.write_text(
        json.dumps(
            {
                "version": 1,
                "unlisted": "allow",
                "policies": [{"id": f"r{at}", "temporal": text} for at, text in enumerate(rules)],
            }
        )
    )
    started = time.thread_time()
    report = lint_report(path, seconds=0.3)
    assert time.thread_time() - started < 1.5
    undecided = [line.partition(" (")[0] for line in report.undecided]
    assert undecided[-3:] == [  # on a slow machine what is asked before them as well
        "whether tools can be called",
        "whether rules can be violated",
        "whether rules imply others",
    ]
    assert all(re.search(r"\((r|tool_)\d.*\): not decided: 0.3 seconds", line) for line in report.undecided)


def test_rules_of_packs_are_questioned_only_beside_own_rules(tmp_path: Path) -> None:
    """So that a file with all packs is linted soon, and a contradiction with one of its own rules is found."""
    path = tmp_path / "policies.yaml"
    packs = [f"guardagent:{pack.name}" for pack in packs_of_the_catalogue()]
    own = ["forall(refund(amount=a), a <= 100)", "forall(refund(amount=a), a >= 200)"]
    path.write_text(
        json.dumps(
            {
                "version": 1,
                "unlisted": "allow",
                "include": packs,
                "policies": [{"id": f"r{at}", "temporal": text} for at, text in enumerate(own)],
            }
        )
    )
    started = time.thread_time()
    report = lint_report(path)
    assert time.thread_time() - started < 10
    assert [(finding.kind, finding.policy, finding.tool) for finding in report.findings] == [
        ("contradictory", "r1", "refund")
    ]
    assert report.undecided == ()


@pytest.mark.parametrize(
    "condition",
    ["tool(f) matches /get_.*/", "!(tool(f) matches /drop_.*/)", 'tool(f) matches /put_.*/ -> has(args(f), "x")'],
)
def test_nothing_is_proved_of_tools_that_a_file_does_not_name(condition: str, tmp_path: Path) -> None:
    """A rule may tell them apart by their names, and no made-up tool stands for all."""
    path = tmp_path / "policies.yaml"
    rules = [f"forall(f:*(), {condition})", "forall(get_refund(amount=a), a <= 100)"]
    path.write_text(
        json.dumps(
            {
                "version": 1,
                "unlisted": "allow",
                "policies": [{"id": f"r{at}", "temporal": text} for at, text in enumerate(rules)],
            }
        )
    )
    assert lint(path) == []


@pytest.mark.parametrize(
    ("when", "unread"),
    [
        ("'\"user\" in sources(subject)'", False),
        ("'!seen(user)'", False),
        ("by_user(subject)", False),
        ("'sender == \"user\"'", True),
    ],
)
def test_the_condition_of_a_label_reads_labels(when: str, unread: bool, tmp_path: Path) -> None:
    """In a rule's place, and by a definition; a string alone is no label."""
    (tmp_path / "policies.yaml").write_text(f"""version: 1
unlisted: allow
define: {{by_user(x): '"user" in sources(x)'}}
labels: {{user: request, wanted: {{from: inbox, when: {when}}}}}
policies: [{{id: a, temporal: 'forall(send(to=t), "wanted" in sources(t))'}}]
""")
    findings = lint_report(tmp_path / "policies.yaml").findings
    assert ["the label 'user'" in finding.message for finding in findings] == [True] * unread


@pytest.mark.parametrize(
    ("others", "ids"),
    [
        (["G !tool:login"], "rule 'r1' contradicts or repeats"),
        (['G(tool:refund -> H !login(user="admin"))'], "rules 'r0' and 'r1' contradict or repeat"),
        (["before(refund(), true, login(), true)"], "rule 'r1' contradicts or repeats"),
        (["G !tool:other"], None),
        ([], None),
    ],
)
def test_steps_with_arguments_are_not_compared(others: list[str], ids: str | None) -> None:
    """They are no finding, but an open question that names the rules."""
    rules = [*others, 'G(tool:refund -> O login(user="admin"))']
    policies = [{"id": f"r{at}", "temporal": rule} for at, rule in enumerate(rules)]
    report = lint_report(load_policies(data={"version": 1, "unlisted": "allow", "policies": policies}))
    question = f"whether {ids} rules about steps of the same tools: not decided: steps with arguments are not compared"
    assert (report.findings, report.undecided) == ((), (question,) if ids else ())
