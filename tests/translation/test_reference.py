"""The language page for a model: complete, short, and with examples that hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from guardagent import Session, load_policies
from guardagent.batch.cases import judge_case, read_expectation
from guardagent.policy.file.file_keys import POLICY_FILE
from guardagent.policy.file.policy_keys import Key
from guardagent.policy.functions import rule_functions
from guardagent.policy.language import grammar
from guardagent.policy.policies import Policies
from guardagent.session.counters import new_counters
from guardagent.translation.reference import CASES, DATA, FILE, STEPS, language_reference
from guardagent.types import Event
from tests.translation.reference_conversations import CONVERSATIONS, ExampleCall, ExampleConversation

EXAMPLES = (*STEPS, *DATA)
GRAMMAR = Path(grammar.__file__).with_name("language.lark").read_text()
START = 1_769_774_400.0  # Friday, 30 January 2026, 12:00 UTC
IMPLICIT = {"temporal", "condition", "data", "value", "literal", "start"}  # without a node of their own


def policies(rule: str, folder: Path) -> Policies:
    """The rule in the sample file of the page."""
    (folder / "functions.py").write_text(
        'def owner(state, order_id):\n    "Whose it is."\n    return state["owner"][order_id]\n'
    )
    (folder / "shop.yaml").write_text("version: 1\ndefine: {small(amount): amount <= 500}\n")
    head = FILE.partition("policies:")[0] + "toolbox: functions.py\ninclude: shop.yaml\n"
    return load_policies(text=f"{head}policies:\n  - id: a\n    temporal: |\n      {rule}\n", folder=folder)


def label(loaded: Policies, talk: ExampleConversation) -> int:
    """The label of the verdict on a conversation."""
    calls = (*talk.history, *([talk.call] if talk.call else []))
    moments = [START + sum(call.after for call in calls[: at + 1]) for at in range(len(calls))]
    principal = None if talk.roles is None else {"id": "p", "roles": list(talk.roles)}
    session = loaded.session(
        state=talk.state,
        facts=talk.facts,
        principal=principal,
        messages=talk.messages,
        clock=lambda: moments[-1] if talk.call else START,
        zone="UTC",
        counters=new_counters(loaded),
    )
    for step, moment in zip(talk.history, moments, strict=False):
        if step.is_open:
            session.check(step.tool, step.args)
        else:
            session.observe(event(step, moment), judge=False)
    return ask(session, talk.call)


def event(example_call: ExampleCall, moment: float) -> Event:
    status = {None: "unknown", True: "failed", False: "ok"}[example_call.failed]
    return Event(example_call.tool, example_call.args, example_call.output, status, time=moment)  # type: ignore[arg-type]  # one of three


def ask(session: Session, call: ExampleCall | None) -> int:
    if call is None:
        return session.finish().label
    if call.tool == "answer":
        return session.answer(call.args["text"]).label
    return session.check(call.tool, call.args).label


@pytest.mark.parametrize("rule", EXAMPLES)
def test_an_example_allows_and_denies(rule: str, tmp_path: Path) -> None:
    """Each rule of the page has a call that it allows and one that it denies."""
    for expected, conversation in enumerate(CONVERSATIONS[rule]):
        assert label(policies(rule, tmp_path), conversation) == expected


def test_the_sample_cases_hold() -> None:
    """For the sample file, as the page shows them."""
    loaded = load_policies(text=FILE)
    for text in CASES:
        case = read_expectation(text, "page", 1)
        verdict = judge_case(loaded, case)
        assert (verdict.label, verdict.rules) == (case.label, case.rules or ())


def nodes_of(text: str) -> Iterator[str]:
    """The constructs and operators of a rule."""
    for node in grammar.tree_of(text).find_pred(lambda _: True):
        yield node.data
        yield from (str(child) for child in list(node.children) if isinstance(child, str))


def test_the_examples_use_every_construct_of_the_grammar() -> None:
    """A new construct needs an example."""
    rules = {*re.findall(r"-> (\w+)", GRAMMAR), *re.findall(r"^([a-z_]+):", GRAMMAR, re.MULTILINE)}
    used = {name for rule in EXAMPLES for name in nodes_of(rule)}
    operators = {*"UWRSGFXOHY", "==", "!=", "<=", ">=", "<", ">", "in", *"+-*/%|&"}
    operators |= {"output", "args", "failed", "first", "last", "all", "any"}
    assert (rules | operators) - IMPLICIT - used == set()


def keys_of(key: Key) -> Iterator[str]:
    for name, inner in key.keys.items():
        yield name
        yield from keys_of(inner)
    if key.item is not None:
        yield from keys_of(key.item)


def test_the_page_names_every_key_and_function() -> None:
    """A new key of the file is on the page, and so is a new function."""
    page = language_reference()
    assert [name for name in keys_of(POLICY_FILE) if f"`{name}`" not in page and f"{name}:" not in FILE] == []
    assert [name for name in rule_functions() if f"`{name}(" not in page and name.isidentifier()] == []


def test_the_page_is_short() -> None:
    """It fits into a prompt."""
    assert len(language_reference()) < 10300


IN_DOUBT: dict[str, list[tuple[dict[str, object], int]]] = {
    "forall(pay(amount=a), a <= 5)": [({}, 1), ({"amount": None}, 1), ({"amount": "3"}, 1), ({"amount": 3}, 0)],
    "forall(pay(amount=a), !known(a) || a <= 5)": [({}, 0), ({"amount": None}, 0), ({"amount": 6}, 1)],
    'forall(pay(id=i), i == "W1")': [({"id": "W1"}, 0), ({"id": "w1"}, 1), ({"id": "#W1"}, 1)],
    "forall(pay(), some(login()))": [({}, 1)],
}


@pytest.mark.parametrize("rule", IN_DOUBT)
@pytest.mark.parametrize("response", ["block", "escalate", "warn"])
def test_what_the_page_says_in_doubt(rule: str, response: str) -> None:
    """Absent, null and other kinds are unknown, and unknown denies whatever the response."""
    loaded = load_policies(data={"version": 1, "policies": [{"id": "a", "temporal": rule, "on_violation": response}]})
    for args, expected in IN_DOUBT[rule]:
        verdict = loaded.session().check("pay", args)
        violated = bool(verdict.rules)
        assert verdict.label == (0 if violated and response == "warn" else expected)


def test_a_call_succeeds_only_if_its_outcome_is_known() -> None:
    """An outcome that nobody knows satisfies no precondition, and still violates."""
    data = {
        "version": 1,
        "policies": [{"id": "a", "temporal": "G(tool:pay -> O tool:login) AND (G(tool:end -> H !tool:login))"}],
    }
    loaded = load_policies(data=data)
    unknown = ExampleConversation((ExampleCall("login", failed=None),), ExampleCall("pay"))
    assert label(loaded, unknown) == 1
    assert label(loaded, ExampleConversation(unknown.history, ExampleCall("end"))) == 1
