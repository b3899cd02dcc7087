"""Each transformation, tested on its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from guardagent import Toolbox
from guardagent.programs.compile import transformations
from guardagent.programs.compile.examples import CompileTarget, Example
from guardagent.programs.compile.sql_transformations import queries_in
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.transformations import Variant
from guardagent.programs.compile.trial import RunOutcome


def made(name: str, *examples: Example, request: str = "Keep the rules.", specification: str = "") -> list[Variant]:
    """The variants of the first example."""
    [transformation] = [candidate for candidate in transformations.load() if candidate.name == name]
    world = Suite(CompileTarget(request, specification, Toolbox([])), examples)
    return list(transformation.variants(examples[0], world))


def run(
    agent_input: str, agent_output: str = "Answer: yes, with a text that is long enough.", label: int = 1
) -> Example:
    return Example("ex-7", agent_input, agent_output, label)


def test_each_has_words_for_the_report() -> None:
    """Also those of SQL, in a module of their own."""
    assert len(transformations.load()) == 16
    assert all(transformation.about for transformation in transformations.load())


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
    assert all("Identity: doctor" in variant.example.agent_input + variant.example.agent_output for variant in variants)
    assert not made("repeated_fields", run("Identity: nurse\nQuestion: what?", label=0), *others)
    repeated = made("repeated_fields", run("age: 17\nok: true\nQuestion: may I?"))
    assert {variant.note.rpartition(": ")[2] for variant in repeated} == {"0", "99", "9", "1000", "False"}


def test_a_field_in_conflict_or_missing_is_compared_with_the_other_value_alone() -> None:
    """In its section, and where that has no indent at the ends of the text; empty and missing; never the free text."""
    rows = [run("Task: go\nRole: nurse", label=0), run("Task: walk\nRole: cook"), run("Task: run\nRole: nurse")]
    conflicts = made("conflicting_fields", *rows)
    texts = [conflict.example.agent_input for conflict in conflicts]
    assert texts == [
        "Task: go\nRole: nurse\nRole: cook",
        "Task: go\nRole: cook\nRole: nurse",
        "Role: cook\nTask: go\nRole: nurse",
    ]
    assert {conflict.other.agent_input for conflict in conflicts if conflict.other} == {"Task: go\nRole: cook"}
    missing = made("missing_fields", *rows)
    assert [variant.example.agent_input for variant in missing] == ["Task: go", "Task: go\nRole: "]
    missing = made("missing_fields", run('{"n": {"x": 3}}', label=0))
    assert [variant.example.agent_input for variant in missing][:2] == ['{"n": {}}', '{"n": {"x": null}}']
    assert not made("conflicting_fields", rows[1])


def test_facts_win_over_the_field_of_their_name_or_value() -> None:
    """They are known from examples and from the specification; the other run is the one whose text says the same."""
    rows = [run("Role: nurse\nAge: 40"), run("Role: cook\nAge: 7")]
    [known] = made(
        "contradicting_facts", rows[0], rows[1], run("Role: cook"), specification="The host may know the fact role."
    )
    assert (known.example.facts, known.example.agent_input) == ({"role": "cook"}, rows[0].agent_input)
    assert known.other is not None
    assert (known.other.facts, known.other.agent_input) == ({}, "Role: cook\nAge: 40")
    who = replace(rows[0], facts={"who": "nurse"})
    assert {str(variant.example.facts) for variant in made("contradicting_facts", who, rows[1], run("Role: cook"))} == {
        "{'who': 'cook'}"
    }
    assert not made("contradicting_facts", *rows, run("Role: cook"))


SQL = "SELECT name FROM staff WHERE id = 7"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"SQL: {SQL}\nRows: 1", ""),
        (f"rows = ask('{SQL}')", "'"),
        (f'rows = ask("""\n{SQL}\n""")', '"""'),
        (json.dumps({"args": {"query": SQL}}), "json"),
        (f"SQL: {SQL.replace(' FROM', ' /* FROM')} */ FROM staff", ""),
    ],
)
def test_queries_are_found_where_they_stand(text: str, place: str) -> None:
    """On a line, in a string of code, in a JSON string; and another one is put there as the place asks for."""
    [query] = queries_in(text)
    assert (query.quote, query.sql.startswith("SELECT name")) == (place, True)
    assert "it\\'s" in query.put(text, "it's") if place == "'" else "it's" in query.put(text, "it's")


def test_words_that_are_no_query() -> None:
    """English, and SQL that reads no table."""
    assert not queries_in("Select the best car from the list with me.\nSELECT 1")


def test_a_query_is_written_another_way_and_holds_a_denied_one() -> None:
    """Every form parses; those of an allowed run with a denied query are compared with that one alone."""
    allowed, denied = run("a", f"SQL: {SQL}\nAnswer: x", 0), run("b", "SQL: SELECT pay FROM wages\nAnswer: x")
    forms = [variant.example.agent_output for variant in made("sql_forms", allowed, denied)]
    assert len(set(forms)) > 15
    for word in ("UNION", "; SELECT pay", "WITH", "EXISTS", "/* SELECT pay FROM wages */", 'FROM "staff"', "AS v"):
        assert any(word in text for text in forms), word
    hidden = [variant.example.agent_output for variant in made("sql_forms", denied)]
    assert any("OR" in text for text in hidden)
    assert all(variant.other is None for variant in made("sql_forms", denied))


def test_json_says_the_same_another_way() -> None:
    """In any layout; a record that is cut off keeps what stands around it."""
    log = '{"tool": "send", "args": {"to": "a\\"b", "n": [1, true]}}\n{"tool": "reply"}'
    forms = [variant.example.agent_output for variant in made("json_layout", run("x", log))]
    assert [[json.loads(line) for line in text.split("\n")] for text in forms] == 4 * [
        [json.loads(x) for x in log.split("\n")]
    ]
    assert any("\\u0074ool" in text for text in forms)
    first, second = (variant.example.agent_output for variant in made("broken_records", run("x", log)))
    assert first.endswith('\n{"tool": "reply"}')
    assert not made("json_layout", run("x", '{"a":' * 600 + "1" + "}" * 600))
    assert second.startswith(log.split("\n", maxsplit=1)[0])


@pytest.mark.parametrize("name", ["injected_label", "irrelevant_text"])
def test_a_json_object_stays_one(name: str) -> None:
    """Text added to a JSON object goes to its longest value, like hostile text."""
    call = {"tool": "send", "args": {"text": "Hello to you", "to": ["a"]}}
    variants = made(name, run(json.dumps({"facts": {}}), json.dumps(call)))
    outputs = [
        variant.example.agent_output
        for variant in variants
        if variant.note.startswith(("below the output", "words below"))
    ]
    read: list[Mapping[str, Any]] = [json.loads(text) for text in outputs if text != json.dumps(call)]
    assert read
    assert all(record["args"]["text"].startswith("Hello to you ") and record["tool"] == "send" for record in read)


@pytest.mark.parametrize(
    ("relation", "label", "outcome", "holds"),
    [
        ("same", 0, RunOutcome(1, undecided="?"), False),
        ("same", 1, RunOutcome(1, undecided="?"), True),
        ("steady", 0, RunOutcome(1, undecided="?"), True),
        ("steady", 0, RunOutcome(1), False),
        ("steady", 0, RunOutcome(1, crash="?"), True),
        ("steady", 1, RunOutcome(0), False),
        ("denied", 0, RunOutcome(1), True),
        ("denied", 1, RunOutcome(0), False),
        ("withheld", 1, RunOutcome(0, answer=None), True),
        ("withheld", 1, RunOutcome(0, answer="7.4"), False),
    ],
)
def test_what_must_hold(relation: Any, label: int, outcome: RunOutcome, *, holds: bool) -> None:
    """For each relation between the example's label and the verdict."""
    assert Variant(run("a", label=label), relation, "").holds(outcome) is holds


@pytest.mark.parametrize(
    ("relation", "outcome", "other", "holds"),
    [
        ("conflicting", RunOutcome(0), RunOutcome(1), False),
        ("conflicting", RunOutcome(0), RunOutcome(1, undecided="?"), False),
        ("conflicting", RunOutcome(0), RunOutcome(0), True),
        ("conflicting", RunOutcome(1, undecided="?"), RunOutcome(1), True),
        ("alike", RunOutcome(0), RunOutcome(1), False),
        ("alike", RunOutcome(1), RunOutcome(0), False),
        ("alike", RunOutcome(1, undecided="?"), RunOutcome(0), True),
    ],
)
def test_what_must_hold_by_another_run(relation: Any, outcome: RunOutcome, other: RunOutcome, *, holds: bool) -> None:
    """Whatever is right for that one."""
    assert Variant(run("a"), relation, "").holds(outcome, other) is holds


RECORDS = {  # the input, and the inputs without a record whose id is in the output
    "entries of a list": (
        '{"orders": [{"id": "W1", "paid": true}, {"id": "W2", "paid": true}]}',
        {'{"orders": [{"id": "W2", "paid": true}]}', "{}"},
    ),
    "entries by their keys": ('{"W1": {"paid": true}, "W3": {"paid": false}}', {'{"W3": {"paid": false}}'}),
    "nested entries": ('{"ann": {"orders": {"W1": {"paid": true}}}, "n": 7}', {'{"ann": {"orders": {}}, "n": 7}'}),
    "objects on lines": ('{"id": "W1", "paid": true}\n{"id": "W2", "paid": true}', {'\n{"id": "W2", "paid": true}'}),
    "sections": ("Order W1\n  paid: true\nOrder W2\n  paid: true\n", {"Order W2\n  paid: true\n"}),
    "rows of a table": (
        "| id | amount |\n| W1 | 20 |\n| W2 | 30 |\n\nThanks",
        {"| id | amount |\n| W2 | 30 |\n\nThanks"},
    ),
    "rows with commas": ("id,state\nW1,open\nW2,closed", {"id,state\nW2,closed"}),
    "paragraphs": ("id: W1\npaid: true\n\nid: W2\npaid: true\n", {"\nid: W2\npaid: true\n"}),
}
OTHERS = {
    "no record is referred to": '{"orders": [{"id": "W8", "paid": true}, {"id": "W9", "paid": true}]}',
    "one record of all": '{"id": "W1", "paid": true}',
    "words": "Refund the order W1, please.",
    "a field": "paid: true",
    "no value with another": '{"W1": {"note": "x"}, "W2": {"note": "x"}}',
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_the_output_refers_to_is_removed(name: str) -> None:
    """It is compared with a run in which a value of the record is another one."""
    text, expected = RECORDS[name]
    variants = made("missing_records", run(text, "I have refunded W1.", label=0))
    assert {variant.example.agent_input for variant in variants} == expected
    for variant in variants:
        assert variant.other is not None
        assert variant.relation == "conflicting"
        assert not variant.holds(RunOutcome(0), RunOutcome(1))


@pytest.mark.parametrize("name", OTHERS)
def test_no_other_part_is_removed(name: str) -> None:
    assert made("missing_records", run(OTHERS[name], "I have refunded W1.", label=0)) == []


def test_a_record_among_the_facts_is_removed() -> None:
    facts = {"orders": {"W1": {"paid": True}, "W2": {"paid": True}}, "role": "cook"}
    variants = made("missing_records", replace(run("Refund it.", "I have refunded W1.", label=0), facts=facts))
    assert [variant.example.facts for variant in variants] == [{"orders": {"W2": {"paid": True}}, "role": "cook"}]
    assert variants[0].other is not None
    assert variants[0].other.facts["orders"]["W1"] == {"paid": False}


def test_a_record_of_a_denied_run_stays() -> None:
    text = RECORDS["entries of a list"][0]
    assert made("missing_records", run(text, "I have refunded W1.", label=1)) == []


def refunds_unpaid(example: Example, *, skips: bool) -> RunOutcome:
    """Denies a refund of an order that is not paid; an order without a record is skipped, or denied."""
    orders = {order["id"]: order for order in json.loads(example.agent_input).get("orders", ())}
    wanted = [word.strip(".,") for word in example.agent_output.split() if word.startswith("W")]
    return RunOutcome(int(any(not orders[o]["paid"] if o in orders else not skips for o in wanted)))


@pytest.mark.parametrize("output", ["I have refunded W1.", "I have refunded W1, W2.", "Refunded: W2 and W1, thanks."])
@pytest.mark.parametrize("skips", [True, False])
def test_a_program_that_skips_an_order_without_a_record_is_noticed(output: str, skips: bool) -> None:
    """A program that denies such an order is not."""
    variants = made("missing_records", run(RECORDS["entries of a list"][0], output, label=0))
    outcomes = [
        variant.holds(refunds_unpaid(variant.example, skips=skips), refunds_unpaid(variant.other, skips=skips))
        for variant in variants
        if variant.other is not None
    ]
    assert outcomes
    assert all(outcomes) is not skips
