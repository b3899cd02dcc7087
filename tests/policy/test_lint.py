"""`lint` finds each planted fault, with an example, and has no findings for correct policies."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from guardagent import InputError, load_policies
from guardagent.policy.lint import LintFinding, lint
from tests.conftest import CommandResult
from tests.policy.lint_cases import DATA, SOLVER, STEPS, Case
from tests.tiers import slow_after

CASES = [*STEPS, *DATA, *SOLVER]
ROOT = Path(__file__).parents[2]


def linted(text: str, folder: Path) -> list[LintFinding]:
    path = folder / "policies.yaml"
    settled = text if "unlisted:" in text else text.replace("version: 1\n", "version: 1\nunlisted: allow\n")
    path.write_text(settled)
    return lint(path)


def findings_of(text: str, folder: Path) -> set[tuple[str, str | None, str | None]]:
    return {(finding.kind, finding.policy, finding.tool) for finding in linted(f"version: 1\n{text}", folder)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_fault_is_found(case: Case, tmp_path: Path) -> None:
    """The finding has the kind, the rule, the tool and a message, and there is no other finding."""
    findings = linted(case.text, tmp_path)
    assert {(finding.kind, finding.policy, finding.tool) for finding in findings} == case.findings
    assert all(finding.message and finding.example for finding in findings)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_corrected_policy_has_no_findings(case: Case, tmp_path: Path) -> None:
    """It differs from the faulty one in one place."""
    assert linted(case.mended, tmp_path) == []


def test_the_cases_cover_every_kind_of_fault() -> None:
    """There are at least 25 policies, and more than one of each kind on the page, but for the missing key."""
    kinds = [kind for case in CASES for kind, _, _ in case.findings]
    assert len(CASES) >= 25
    assert min(kinds.count(kind) for kind in set(kinds)) >= 2
    page = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    assert {*re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)} == {*kinds, "unlisted"}


def test_a_file_that_does_not_say_unlisted_is_reported(tmp_path: Path) -> None:
    """The default allows every call that no rule covers, so the author has to choose."""
    path, rule = tmp_path / "policies.yaml", "policies: [{id: a, temporal: G !tool:wipe}]\n"
    path.write_text(f"version: 1\n{rule}")
    (finding,) = lint(path)
    assert (finding.kind, finding.policy, finding.tool) == ("unlisted", None, None)
    assert "write 'unlisted: deny'" in finding.message
    for choice in ("allow", "deny"):
        path.write_text(f"version: 1\nunlisted: {choice}\n{rule}")
        assert lint(path) == []


def test_tools_that_are_all_named_leave_no_unlisted_call(tmp_path: Path) -> None:
    """With `tools:`, calls of others are denied anyway: the example is a declared tool, if there is one."""
    path = tmp_path / "policies.yaml"
    for more, examples in (("", []), (", send", ["send() is allowed, whatever its arguments"])):
        path.write_text(f"version: 1\ntools: [wipe{more}]\npolicies: [{{id: a, temporal: G !tool:wipe}}]\n")
        assert [finding.example for finding in lint(path) if finding.kind == "unlisted"] == examples


def test_rules_of_different_scopes_are_not_compared(tmp_path: Path) -> None:
    """Each denies the calls of others; within one scope, they contradict and shadow each other as ever."""
    rules = "[{id: a, temporal: G !tool:pay, applies_to: {roles: [a]}}, {id: b, temporal: G !tool:pay%s}]"
    for scope, kinds in ((", applies_to: {roles: [b]}", set()), (", applies_to: {roles: [a]}", {"duplicate"})):
        assert {kind for kind, _, _ in findings_of(f"policies: {rules % scope}", tmp_path)} == kinds
    assert findings_of(f"policies: {rules % ''}", tmp_path) == set()


# --- deliberate rules


@pytest.mark.parametrize(
    "policies",
    [
        "policies: [{id: a, temporal: 'G !tool:drop_table'}]",
        "policies: [{id: a, temporal: 'forall(drop_table(), false)'}]",
        "policies: [{id: a, temporal: 'NOT exists(drop_table(), true)'}]",
        "policies: [{id: a, temporal: 'forall(get_time(), true)'}]",
        "policies: [{id: a, temporal: 'tool:login'}]",
        "policies: [{id: a, temporal: 'tool:ask U tool:answer'}]",
        "policies: [{id: a, solver: {smt: (declare-const n Int), tools: {t: {permit: true, variables: {}}}}}]",
        "policies: [{id: a, solver: {smt: (declare-const n Int), tools: {t: {permit: false, variables: {}}}}}]",
        "tools: [a, b]\npolicies: [{id: a, temporal: 'G !pii'}]",
        "tools: [a, b]\npolicies: [{id: a, temporal: 'before(a(), true, b(), true)'}]",
    ],
)
def test_explicit_rules_have_no_findings(policies: str, tmp_path: Path) -> None:
    """Examples are a ban, a tool that may always be called, a first call, and labels from the host."""
    assert findings_of(policies, tmp_path) == set()


@pytest.mark.parametrize(
    ("weaker", "stronger", "expected"),
    [
        ("block", "warn", 0),
        ("warn", "block", 1),
        ("block", "escalate", 0),
        ("escalate", "halt", 1),
        ("halt", "block", 0),
    ],
)
def test_a_rule_shadows_only_rules_with_the_same_effect(
    weaker: str, stronger: str, expected: int, tmp_path: Path
) -> None:
    """A warning does not shadow a blocking rule; nor does an escalation, since approval lifts only escalated rules."""
    text = f"""policies:
  - {{id: weaker, temporal: G(tool:a -> O (tool:b || tool:c)), on_violation: {weaker}}}
  - {{id: stronger, temporal: G(tool:a -> O tool:b), on_violation: {stronger}}}
"""
    assert findings_of(text, tmp_path) == ({("shadowed", "weaker", "a")} if expected else set())


def test_a_rule_that_is_unknown_shadows_no_rule_that_is_violated(tmp_path: Path) -> None:
    """Without the second rule, the call would be denied as unknown, without a reason that helps."""
    text = """policies:
  - {id: free, temporal: "forall(move(to=t), output(last(f:look(to=t), !failed(f))).free >= 10)"}
  - {id: looked, temporal: "before(move(to=t), true, look(to=t), true)"}
"""
    assert findings_of(text, tmp_path) == set()


@pytest.mark.parametrize("severity", ["warn", "escalate"])
def test_rules_that_do_not_block_are_not_contradictory(severity: str, tmp_path: Path) -> None:
    """A call that violates them may run, or be approved."""
    text = f"""policies:
  - {{id: one, temporal: "forall(t(n=n), n > 5)", on_violation: {severity}}}
  - {{id: two, temporal: "forall(t(n=n), n < 5)"}}
"""
    assert findings_of(text, tmp_path) == set()


# --- compared with sessions

RULES = (
    "G(tool:a -> O tool:b)",
    "G(tool:b -> O tool:c)",
    "G(tool:c -> O tool:a)",
    "G !tool:b",
    "tool:a -> F tool:b",
    "tool:c -> F[<=1] tool:a",
    "G(tool:b -> X tool:c)",
    "G(tool:a -> H !tool:b)",
    "tool:b U tool:c",
    "G(tool:b -> G !tool:c)",
    "before(c(), true, b(), true)",
    "after(a(), true, c(), true)",
    "forall(a(), count(f:b()) > 0)",
    "(G !tool:a) OR (G !tool:c)",
)


def kept_orders(path: Path) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yields every order of up to five calls that a session allows, and whether the session may end there."""
    policies = load_policies(path)
    for length in range(6):
        for order in product("abc", repeat=length):
            session = policies.session()
            if all(_done(session, tool) for tool in order):
                yield order, session.finish().label == 0


def _done(session: object, tool: str) -> bool:
    allowed: bool = session.check(tool).label == 0  # type: ignore[attr-defined]
    if allowed:
        session.record("done")  # type: ignore[attr-defined]
    return allowed


@pytest.mark.parametrize("seed", slow_after(10, range(40)))
def test_a_contradictory_tool_is_never_called(seed: int, tmp_path: Path) -> None:
    """A tool has a finding exactly if it is in no allowed order of calls that ends well."""
    texts = random.Random(seed).sample(RULES, 3)  # noqa: S311 - any three
    path = tmp_path / "policies.yaml"
    rules = "".join(f"  - id: rule {at}\n    temporal: {text}\n" for at, text in enumerate(texts))
    path.write_text(f"version: 1\ntools: [a, b, c]\npolicies:\n{rules}")
    contradictory = {finding.tool for finding in lint(path) if finding.kind == "contradictory"}
    well = [order for order, ends in kept_orders(path) if ends]
    never = {tool for tool in "abc" if not any(tool in order for order in well)}
    if not well:
        assert contradictory == {None}
    else:
        assert contradictory <= never
        banned = {"b"} if "G !tool:b" in texts else set()
        concerned = {tool for rule in load_policies(path).rules for tool in rule.tools}
        assert never & concerned - banned <= contradictory


# --- files of the project


@pytest.mark.slow
@pytest.mark.parametrize("name", ["airline", "airline-solver", "retail"])
def test_the_benchmark_leaves_only_tools_that_read(name: str) -> None:
    """The tools without a rule only look up data, think, or hand over."""
    path = ROOT / "benchmarks" / "tau" / f"{name}.yaml"
    harmless = ("calculate", "find_", "get_", "list_all_", "search_", "think", "transfer_to_human_agents")
    findings = lint(path)
    assert {finding.kind for finding in findings} == {"uncovered"}
    assert all(finding.tool is not None and finding.tool.startswith(harmless) for finding in findings)


def test_the_starter_is_clean() -> None:
    """The files that `init` writes have no findings."""
    assert lint(ROOT / "guardagent" / "cli" / "_starter" / "policies.yaml") == []


def test_the_rules_of_agentproof_shadow_each_other(shared: Path, tmp_path: Path) -> None:
    """Two of its 15 policies imply four others, and there are no other findings."""
    rules = json.loads((shared / "workflows" / "temporal_policies.json").read_text())
    text = "".join(f"  - {json.dumps({'id': rule['id'], 'temporal': rule['dsl']})}\n" for rule in rules)
    assert findings_of(f"policies:\n{text}", tmp_path) == {
        ("shadowed", "email_requires_review", "draft_email"),
        ("shadowed", "no_delete_production", "delete_production_db"),
        ("shadowed", "no_drop_table", "drop_table"),
        ("shadowed", "no_rm_rf", "rm_rf"),
    }


# --- no code is run


def test_no_code_is_run(tmp_path: Path) -> None:
    """The toolbox is only parsed for signatures, and programs are not run."""
    (tmp_path / "state.py").write_text('''
raise SystemExit("run")


def owner(state, order_id: str, *, late=print("run")) -> str:
    """Whose order it is."""
''')
    (tmp_path / "program.py").write_text("raise SystemExit")
    text = """toolbox: state.py
policies:
  - {id: own, temporal: 'forall(pay(order=o), state(owner(o)) == fact(user))'}
  - {id: polite, request: Be polite., program: program.py}
"""
    assert findings_of(text, tmp_path) == set()
    with pytest.raises(InputError, match="owner"):
        findings_of(text.replace("owner(o)", "owner(o, o)"), tmp_path)


# --- the command


@pytest.fixture
def run(cli: Callable[..., CommandResult], tmp_path: Path) -> Callable[..., CommandResult]:
    def lint_command(text: str, *options: str) -> CommandResult:
        path = tmp_path / "policies.yaml"
        path.write_text(f"version: 1\nunlisted: allow\n{text}")
        return cli("lint", path, *options)

    return lint_command


def test_the_command_prints_findings_as_json(run: Callable[..., CommandResult]) -> None:
    """Standard output has one object per line and nothing else; the exit status is 1."""
    ran = run(STEPS[0].text.removeprefix("version: 1\n"), "--json")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.status == 1
    assert [list(row) for row in rows] == [["kind", "policy", "tool", "message", "example", "others"]] * 2


def test_the_command_prints_findings_as_text(run: Callable[..., CommandResult]) -> None:
    """A finding has its kind, the rule, the fault, and an example."""
    ran = run("policies: [{id: a, temporal: 'tool:pay -> O tool:login'}]")
    assert ran.status == 1
    assert ran.out.startswith("vacuous: a (pay): 'tool:pay -> O tool:login' applies to the first step only")
    assert "did you mean 'G(tool:pay -> O tool:login)'?" in ran.out


def test_a_clean_file_exits_0(run: Callable[..., CommandResult]) -> None:
    """Standard output is empty; standard error has the number of checked rules."""
    rules = ", ".join(f"{{id: {tool_name}, temporal: 'G(tool:{tool_name} -> O tool:login)'}}" for tool_name in "ab")
    ran = run(f"policies: [{rules}]")
    assert (ran.status, ran.out) == (0, "")
    assert ran.err.endswith("no findings in 2 rules\n")


def test_an_undecided_check_exits_3(run: Callable[..., CommandResult]) -> None:
    """There are no findings, and a note says which checks were incomplete."""
    labels = " || ".join(f"label{at}" for at in range(9))
    ran = run(f"policies: [{{id: a, temporal: G(({labels}) -> O tool:t)}}]")
    assert (ran.status, ran.out) == (3, "")
    assert ran.err.startswith("note: tools that can never be called: not decided")


def test_a_wrong_file_is_an_error(run: Callable[..., CommandResult]) -> None:
    """The message is the same as for other commands, and the exit status is 2."""
    ran = run("policies: [{id: a, temporal: 'G(tool:pay'}]")
    assert ran.status == 2
    assert "policies.yaml:3" in ran.err


def test_a_session_confirms_the_example(tmp_path: Path) -> None:
    """The call in the example is allowed, and denied once the implication is an equivalence."""
    case = SOLVER[0]
    (finding,) = linted(case.text, tmp_path)
    example = re.match(r"cancel\(\), where booked (\d+) hours ago; cabin is ([\w ]+): permitted", finding.example)
    assert example
    call = "cancel", {"hours": int(example[1]), "cabin": example[2].replace(" ", "_")}
    assert load_policies(tmp_path / "policies.yaml").session().check(*call).label == 0
    (tmp_path / "policies.yaml").write_text(case.mended)
    assert load_policies(tmp_path / "policies.yaml").session().check(*call).rules == ("eligible",)


def test_counters_are_numbers_from_zero(tmp_path: Path) -> None:
    """No session has a counter below zero, and a lower limit makes a higher one needless."""
    rules = {
        "day": "forall(refund(customer=c, amount=a), counter(spent, c) + a <= 500)",
        "more": "forall(refund(customer=c, amount=a), counter(spent, c) + a <= 600)",
        "never": "forall(close(customer=c), counter(spent, c) < 0)",
        "always": "forall(show(customer=c), counter(spent, c) >= 0)",
    }
    counters = "counters: {spent: {on: refund(customer=c, amount=a), key: c, sum: a}}\n"
    policies = "".join(f"  - {{id: {name}, temporal: '{rule}'}}\n" for name, rule in rules.items())
    assert findings_of(f"{counters}policies:\n{policies}", tmp_path) == {
        ("shadowed", "more", "refund"),
        ("contradictory", "never", "close"),
        ("vacuous", "always", "show"),
    }
