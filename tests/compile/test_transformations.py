"""What each transformation makes of a run, seen by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from guardagent import Toolbox
from guardagent.compile import transformations
from guardagent.compile.examples import Example
from guardagent.compile.subject import Subject
from guardagent.compile.transformations import Variant
from guardagent.compile.trial import Outcome
from guardagent.compile.world import World


def made(name: str, *examples: Example, request: str = "Keep the rules.") -> list[Variant]:
    """The variants of the first example."""
    [transformation] = transformations.load(frozenset(transformations.names()) - {name})
    world = World(Subject(request, "", Toolbox([])), examples)
    return list(transformation.variants(examples[0], world))


def run(
    agent_input: str, agent_output: str = "Answer: yes, with a text that is long enough.", label: int = 1
) -> Example:
    return Example("ex-7", agent_input, agent_output, label)


def test_each_is_a_file_with_words_for_the_report() -> None:
    """Found by listing their folder."""
    assert len(transformations.names()) == 7
    assert all(one.about for one in transformations.load())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("patient 014-55302, 40 mg", "patient 347-88635, 40 mg"),
        ("order 1234 of 2026-01-31, 12:30", "order 4567 of 2026-01-31, 12:30"),
        ('{"order_id": "1234"}', '{"order_id": "4567"}'),
        ("as in ex-7: 1000 pieces", "as in ex-0: 1000 pieces"),
        ("user 5bd60fa1-60aa", "user 8bd93fa4-93aa"),
    ],
)
def test_ids_are_changed_alike(before: str, after: str) -> None:
    """In input and output; quantities, dates and times stay."""
    [variant] = made("changed_ids", run(before, f"Answer: {before}"))
    assert (variant.example.agent_input, variant.example.agent_output) == (after, f"Answer: {after}")
    assert variant.relation == "same"


def test_what_is_no_id_stays() -> None:
    """Also a word with digits that the request names."""
    assert not made("changed_ids", run("age: 17, zip 10019, on 2026-01-31 for 2500 dollars, icd9code"))
    assert not made("changed_ids", run("form AB-12345"), request="Nobody may send form AB-12345.")


def test_fields_are_turned_around_where_they_follow_each_other() -> None:
    """With the same indent; and the keys of a JSON object."""
    [lines] = made("reordered_fields", run("Task: Go.\nAbout:\n  age: 3\n  place: Rome\nRole: cook\nName: Bo"))
    assert lines.example.agent_input == "Task: Go.\nAbout:\n  place: Rome\n  age: 3\nName: Bo\nRole: cook"
    [keys] = made("reordered_fields", run('{"a": 1, "b": 2}'))
    assert list(json.loads(keys.example.agent_input)) == ["b", "a"]
    assert not made("reordered_fields", run("Only words."))


def test_a_field_is_repeated_with_the_values_of_others() -> None:
    """In the free text and in the output; never the free text itself."""
    example = run("Identity: nurse\nQuestion: what is the result of the test?")
    others = [run("Identity: doctor\nQuestion: a?"), run("Identity: nurse\nQuestion: b?")]
    variants = made("repeated_fields", example, *others)
    assert len(variants) == 5
    assert all("Identity: doctor" in one.example.agent_input + one.example.agent_output for one in variants)
    assert not made("repeated_fields", run("Identity: nurse\nQuestion: what?", label=0), *others)
    assert {
        v.note.rpartition(": ")[2] for v in made("repeated_fields", run("age: 17\nok: true\nQuestion: may I?"))
    } == {
        "0",
        "99",
        "False",
    }


@pytest.mark.parametrize("name", ["injected_label", "irrelevant_text"])
def test_a_json_object_stays_one(name: str) -> None:
    """What is added to it stands in its longest value, where hostile text would be."""
    call = {"tool": "send", "args": {"text": "Hello to you", "to": ["a"]}}
    variants = made(name, run(json.dumps({"facts": {}}), json.dumps(call)))
    outputs = [one.example.agent_output for one in variants if one.note.startswith(("below the output", "words below"))]
    read: list[Mapping[str, Any]] = [json.loads(text) for text in outputs if text != json.dumps(call)]
    assert read
    assert all(one["args"]["text"].startswith("Hello to you ") and one["tool"] == "send" for one in read)


@pytest.mark.parametrize(
    ("relation", "label", "outcome", "holds"),
    [
        ("same", 0, Outcome(1, undecided="?"), False),
        ("same", 1, Outcome(1, undecided="?"), True),
        ("steady", 0, Outcome(1, undecided="?"), True),
        ("steady", 0, Outcome(1), False),
        ("steady", 0, Outcome(1, crash="?"), True),
        ("steady", 1, Outcome(0), False),
        ("denied", 0, Outcome(1), True),
        ("denied", 1, Outcome(0), False),
        ("withheld", 1, Outcome(0, answer=None), True),
        ("withheld", 1, Outcome(0, answer="7.4"), False),
    ],
)
def test_what_must_hold(relation: Any, label: int, outcome: Outcome, *, holds: bool) -> None:
    """For each relation between the example's label and the verdict."""
    assert Variant(run("a", label=label), relation, "").holds(outcome) is holds
