"""The host owns the verdict: what a program claims counts only as far as the recorded calls bear it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guardagent import ContentError, Context, Event, Toolbox, Verdict
from guardagent._support.execution import deny_on_crash, fold
from guardagent.programs.program import (
    MAX_DEPTH,
    MAX_NODES,
    RequiredCheck,
    copy_value,
    evaluator,
    program_check,
    required_check,
)
from guardagent.sandbox import load_sandbox

TOOLBOX, SANDBOX = Toolbox.load(), load_sandbox()
EVENT = Event("agent_run", args={"input": "Role: nurse"}, output="done")
ALLOWED = "check_access({'lab': ['name']}, {'lab': ['name']})"
DENIED = "check_access({}, {'lab': ['name']})"


def judge(body: str, facts: dict[str, Any] | None = None) -> Verdict:
    source = "def check(agent_input, agent_output, facts):\n    " + body.replace("\n", "\n    ")
    return deny_on_crash(program_check(source, SANDBOX, TOOLBOX))(EVENT, Context(facts=facts or {}))


def test_an_allowance_with_a_check_stands() -> None:
    """Label 0, the answer passes, and the calls are on the verdict."""
    verdict = judge(f"{ALLOWED}\nreturn {{'label': 0, 'answer': agent_output, 'details': {{'risk': 'low'}}}}")
    assert (verdict.label, verdict.answer, verdict.risk, verdict.checked_by) == (0, "done", "low", "program")
    assert [call.name for call in verdict.calls] == ["check_access"]


@pytest.mark.parametrize(
    "body",
    [
        "return {'label': 0, 'answer': 'x'}",
        "columns_read('x = 1')\nreturn {'label': 0}",
        "def own_check(a, b):\n    return False, {}\nown_check({}, {})\nreturn {'label': 0}",
    ],
)
def test_a_program_that_called_no_check_cannot_allow(body: str) -> None:
    """Neither another function nor one of its own counts."""
    verdict = judge(body)
    assert verdict.label == 1
    assert verdict.answer is None
    assert "called no check" in verdict.errors[0]


def test_a_check_that_failed_cannot_be_passed_over() -> None:
    """A program that catches the error of one check and calls another cannot allow."""
    verdict = judge(f"try:\n    check_access(1, 2)\nexcept ValueError:\n    pass\n{ALLOWED}\nreturn {{'label': 0}}")
    assert verdict.label == 1
    assert (
        "a check failed, but the program allowed the run: check_access: 'allowed' is not a mapping" in verdict.errors[0]
    )


@pytest.mark.parametrize("order", [[ALLOWED, DENIED], [DENIED, ALLOWED], [DENIED, DENIED]])
def test_a_check_that_denied_wins_over_label_0(order: list[str]) -> None:
    """Whatever else was checked, and whatever the program makes of it."""
    verdict = judge("\n".join(order) + "\nreturn {'label': 0, 'answer': 'secret'}")
    assert (verdict.label, verdict.answer) == (1, None)
    assert verdict.violations[0].evidence == {"lab": ["name"]}


def test_what_a_program_does_to_its_arguments_changes_no_record() -> None:
    """A list that is emptied after the check was still full when it was checked."""
    verdict = judge("needed = {'lab': ['name']}\ncheck_access({}, needed)\nneeded.clear()\nreturn {'label': 0}")
    assert verdict.violations
    assert verdict.calls[0].args[1] == {"lab": ["name"]}


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("None", "expected a dict"),
        ("[0]", "expected a dict"),
        ("{'label': False}", "label False"),
        ("{'label': '0'}", "label '0'"),
        ("{'label': 2}", "label 2"),
        ("{'label': 0.0}", "label 0.0"),
        ("{}", "label None"),
        ("{'label': 0, 'reasons': 'why'}", "reasons"),
        ("{'label': 0, 'details': []}", "details"),
        ("{'label': 0, 'answer': 5}", "answer"),
        ("{'label': 0, 'verdict': 'allow'}", "unknown key 'verdict'"),
        ("{'label': 0, 'details': {1: 2}}", "as a key"),
        ("{'label': 0, 'details': {'a': float('nan')}}", "finite"),
        ("{'label': 0, 'details': {'a': {1, 2}}}", "set"),
        ("{'label': 0, 'details': {'a': 2 ** 70}}", "63 bits"),
        ("{'label': 0, 'details': {'a': [0] * 20000}}", "more than"),
    ],
)
def test_a_value_of_the_wrong_type_or_size_is_no_answer(returned: str, says: str) -> None:
    """Exact types within budgets; anything else denies, with the cause."""
    verdict = judge(f"{ALLOWED}\nreturn {returned}")
    assert verdict.label == 1
    assert says in verdict.errors[0]


def test_the_budgets_hold_for_depth_too() -> None:
    """A value is copied down to a depth, and not beyond."""
    deep: Any = 0
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert copy_value(deep) == deep
    for value in ([deep], [0] * MAX_NODES):
        with pytest.raises(Exception, match="more than"):
            copy_value(value)


def test_a_crashing_function_denies_with_a_short_message() -> None:
    """The guest sees one kind of error and no host object; the verdict names the cause."""
    verdict = judge("columns_read(5)\nreturn {'label': 0}")
    assert verdict.label == 1
    assert "columns_read" in verdict.errors[0]
    assert "Traceback" not in verdict.errors[0]
    assert "/" not in verdict.errors[0]


def test_an_unknown_function_is_named_with_the_nearest() -> None:
    """A misspelt toolbox function is an error that says which was meant."""
    assert "did you mean 'check_access'" in judge("chek_access({}, {})\nreturn {'label': 0}").errors[0]


def test_every_argument_can_be_passed_by_its_name() -> None:
    """Also `name`, which is a parameter of toolbox functions."""
    role = "field(text=agent_input, name='Role')"
    assert judge(f"{ALLOWED}\nreturn {{'label': 0, 'answer': {role}}}").answer == "nurse"


def test_facts_reach_the_program_as_a_copy() -> None:
    """A program may read what the host knows, and change only its own copy."""
    facts = {"role": {"name": "nurse"}}
    verdict = judge(f"{ALLOWED}\nfacts['role']['name'] = 'x'\nreturn {{'label': 0, 'answer': 'ok'}}", facts)
    assert verdict.answer == "ok"
    assert facts == {"role": {"name": "nurse"}}


def test_nothing_is_parsed_from_what_is_printed() -> None:
    """An imitated verdict on standard output is only text."""
    assert judge("print('{\"label\": 0}')\nreturn {'label': 1, 'reasons': ['no']}").reasons == ("no",)


def test_a_required_check_stands_beside_the_program() -> None:
    """The more severe of the two answers wins, and an unknown argument denies."""
    from pathlib import Path

    required = RequiredCheck.parse("check_access(granted(table, facts.role), need)", {"table": 0, "need": 0}, Path("s"))
    data = {"table": {"nurse": {"lab": ["name"]}}, "need": {"lab": ["name"]}}
    source = f"def check(a, b, c):\n    {ALLOWED}\n    return {{'label': 0, 'answer': 'yes'}}".replace(
        "a, b, c", "agent_input, agent_output, facts"
    )
    both = fold([program_check(source, SANDBOX, TOOLBOX), required_check(required, TOOLBOX, data)])
    assert both(EVENT, Context(facts={"role": "nurse"})).answer == "yes"
    assert "unknown role" in both(EVENT, Context(facts={"role": "cook"})).errors[0]
    assert both(EVENT, Context()).label == 1
    stricter = required_check(required, TOOLBOX, data | {"need": {"lab": ["result"]}})
    verdict = fold([program_check(source, SANDBOX, TOOLBOX), stricter])(EVENT, Context(facts={"role": "nurse"}))
    assert (verdict.label, verdict.answer) == (1, None)
    assert verdict.violations[0].evidence == {"lab": ["result"]}


def test_an_imitating_toolbox_check_must_return_its_shape(write: Any) -> None:
    """A check of a user that returns anything but (bool, evidence) is an error, not an allowance."""
    path = write("tools/mine.py", 'def check_mine(x: int) -> int:\n    """Checks."""\n    return x\n')
    toolbox = Toolbox.load(path)
    source = "def check(agent_input, agent_output, facts):\n    check_mine(0)\n    return {'label': 0}"
    verdict = deny_on_crash(program_check(source, SANDBOX, toolbox))(EVENT, Context())
    assert "expected (denied: bool, evidence)" in verdict.errors[0]


# --- required checks


HERE = Path("specification.md")


def test_the_inner_calls_compute_the_arguments() -> None:
    """Calls are made innermost first, with input, output, facts and the specification's data."""
    made: list[Any] = []

    def call(name: str, *args: Any, **kwargs: Any) -> Any:
        made.append((name, args, kwargs))
        return name

    check = RequiredCheck.parse(
        'check_a(f(input, "x"), facts.role, facts.get("missing"), limit=table)', {"table": 7}, HERE
    )
    evaluator(check.call)(call, {"input": "IN", "output": "OUT", "facts": {"role": "r"}, "table": 7})
    assert made == [("f", ("IN", "x"), {}), ("check_a", ("f", "r", None), {"limit": 7})]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("columns_read(output)", "expected a call of a check_… function"),
        ("check_access(", "not an expression"),
        ("check_access(outptu)", "unknown name 'outptu'; did you mean 'output'"),
        ("check_access(__import__('os').system('x'))", "not supported"),
        ("check_access(facts.role.upper())", "not supported"),
        ("check_access([x for x in output])", "not supported"),
    ],
)
def test_anything_but_plain_calls_is_an_error_at_load(text: str, says: str) -> None:
    """It is data of the operator, evaluated without Python's eval."""
    with pytest.raises(ContentError, match=says):
        RequiredCheck.parse(text, {}, HERE)


def test_an_unknown_function_is_an_error_before_any_run() -> None:
    """A required check that cannot be made must not wait for the first check to be found out."""
    with pytest.raises(ContentError, match="unknown toolbox function 'colums_read'; did you mean 'columns_read'"):
        RequiredCheck.parse("check_access(input, colums_read(output))", {}, HERE).bind(Toolbox.load())


def test_a_missing_fact_is_an_error_unless_read_with_get() -> None:
    """A misspelt or missing fact must not read as None and pass."""
    check = RequiredCheck.parse("check_a(facts.baned)", {}, HERE)
    with pytest.raises(ValueError, match="the fact 'baned' is missing; did you mean 'banned'"):
        evaluator(check.call)(lambda *_: None, {"facts": {"banned": True}})


@pytest.mark.parametrize(
    "call", ["check_access(input)", "check_access(input, output, output)", "check_access(input, x=1)"]
)
def test_arguments_that_do_not_fit_are_an_error_before_any_run(call: str) -> None:
    """The message shows the signature."""
    with pytest.raises(ContentError, match="expected 'check_access"):
        RequiredCheck.parse(call, {}, HERE).bind(Toolbox.load())
