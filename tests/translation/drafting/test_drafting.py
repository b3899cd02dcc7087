"""The author of drafts: its requests, its answers and its batches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import AnswerError
from guardagent.models import load_model
from guardagent.models.metering import Meter, ResponseCache
from guardagent.models.prompts import Prompts
from guardagent.policy.documents import read_document
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafting import DraftAuthor, draft_batches, draft_text, read_draft, usable_part
from guardagent.translation.drafts import Draft, Problem, RuleDraft
from guardagent.translation.examination import examine
from guardagent.translation.requests import ModelRequests
from tests.models.conftest import Serve, serve
from tests.models.server import Reply, status, text
from tests.translation.library import DRAFT, block, context, translator

# --- authors of drafts, against a scripted server


__all__ = ["serve"]

WRONG = DRAFT.replace("n < 5", "n < 6")


def limit_problem(draft: Draft, _: TranslationContext) -> Iterator[Problem]:
    """Finds the limit of six books."""
    for rule in draft.rules:
        if "< 6" in rule.rule["temporal"]:
            yield Problem("case", "allows the sixth book", rule.id, fatal=True)


def author(folder: Path, *, cache: ResponseCache | None = None) -> DraftAuthor:
    model = ModelRequests(Meter(load_model("openai/test"), cache=cache), Prompts())
    return DraftAuthor(context(folder), model, limit_problem)


def test_problems_go_back_to_the_model(serve: Serve, tmp_path: Path) -> None:
    server = serve(translator(draft=lambda user: DRAFT if "allows the sixth book" in user else WRONG))
    result = author(tmp_path).drafts([(4, 5)])[0]
    assert usable_part(result) == result.draft
    assert not result.problems
    user = server.requests[1]["messages"][-1]["content"]
    assert "1. rule loan_limit: allows the sixth book" in user
    assert "forall(lend(loans=n), n < 6)" in user, "the model sees its last answer"


def test_a_problem_that_stays_is_kept(serve: Serve, tmp_path: Path) -> None:
    server = serve(translator(draft=WRONG))
    result = author(tmp_path).drafts([(4, 5)])[0]
    assert [problem.message for problem in result.problems] == ["allows the sixth book"]
    assert len(server.requests) == 3
    part = usable_part(result)
    assert part is not None
    assert ([rule.id for rule in part.rules], part.sentences) == (["card_checked"], (5,))


def test_an_author_who_insists_gets_no_second_request(serve: Serve, tmp_path: Path) -> None:
    """On what is not fatal: the reviewer sees it."""
    server = serve(translator(draft=WRONG))
    model = ModelRequests(Meter(load_model("openai/test")), Prompts())

    def harmless(draft: Draft, inputs: TranslationContext) -> Iterator[Problem]:
        return (replace(problem, fatal=False) for problem in limit_problem(draft, inputs))

    result = DraftAuthor(context(tmp_path), model, harmless).drafts([(4, 5)])[0]
    assert len(result.problems) == 1
    assert len(server.requests) == 2


def test_a_worse_correction_is_not_taken(serve: Serve, tmp_path: Path) -> None:
    both = WRONG.replace('temporal: "before(lend', 'temporal: "forall(lend(loans=n), n < 6) AND before(lend')
    serve(translator(draft=lambda user: both if "sixth" in user else WRONG))
    assert len(author(tmp_path).drafts([(4, 5)])[0].problems) == 1


def test_a_correction_whose_answer_is_cut_is_divided(serve: Serve, tmp_path: Path) -> None:
    """The author gets the problems in two halves."""
    both = WRONG.replace('temporal: "before(lend', 'temporal: "forall(lend(loans=n), n < 6) AND before(lend')
    rules, _, card = DRAFT.partition("  - id: card_checked")
    parts = {"rule loan_limit: ": rules, "rule card_checked: ": f"rules:\n  - id: card_checked{card}"}
    script = translator(draft=lambda user: next((part for name, part in parts.items() if name in user), both))

    def reply(request: dict[str, Any]) -> Reply:
        is_whole = all(name in request["messages"][-1]["content"] for name in parts)
        return text("rules:", finish_reason="length") if is_whole else script(request)

    server = serve(reply)
    result = author(tmp_path).drafts([(4, 5)])[0]
    assert (result.problems, result.error, len(server.requests)) == ((), "", 4)
    assert result.draft == read_draft(block(DRAFT), (4, 5), 6)


def test_prose_leads_to_another_request_and_is_not_cached(serve: Serve, tmp_path: Path) -> None:
    """A later run asks anew; answers that could be read are not paid for twice."""
    server = serve([text("I refuse."), text("No."), text(block(DRAFT))])
    cache = ResponseCache(tmp_path / "cache")
    result = author(tmp_path, cache=cache).drafts([(4, 5)])[0]
    assert result.draft is None
    assert "no ```yaml block" in result.error
    assert usable_part(author(tmp_path, cache=cache).drafts([(4, 5)])[0])
    assert usable_part(author(tmp_path, cache=cache).drafts([(4, 5)])[0])
    assert len(server.requests) == 3


# --- reading drafts in answers of a model


RULE = 'rules:\n  - id: r\n    quotes: [{sentence: 4, words: "w"}]\n    temporal: "G !tool:x"\n'


def test_a_draft_is_read() -> None:
    draft = read_draft(block(DRAFT), (4, 5), 6)
    assert [rule.id for rule in draft.rules] == ["loan_limit", "card_checked"]
    assert draft.rules[0].quotes == {4: "at most five books on loan"}
    assert draft.rules[0].rule["temporal"] == "forall(lend(loans=n), n < 5)"
    assert len(draft.rules[1].cases) == 5


@pytest.mark.parametrize(
    "answer", [DRAFT, RULE.replace('"w"}', '"on loan"}, {sentence: 4, words: "at most"}')], ids=["whole", "two quotes"]
)
def test_a_draft_in_the_form_of_an_answer_is_read_as_itself(answer: str) -> None:
    """Two quotes of one sentence are two, whatever their order."""
    draft = read_draft(block(answer), (4, 5), 6)
    assert read_draft(draft_text(draft), (4, 5), 6) == draft
    assert draft.rules[0].quotes[4] in ("at most five books on loan", "on loan\nat most")


OWN = "ambiguous: [{sentence: 4, question: 'c?', readings: ['v', 'w'], follows: 2}]\n"
OTHERWISE = (
    "ambiguous: [{sentence: 4, question: 'c?', readings: ['v', 'w'], follows: 1, otherwise: [{id: r, OTHER}]}]\n"
)


@pytest.mark.parametrize("other", ["temporal: 'G !tool:y'", "id_only: true", "message: 'No.'"])
def test_an_author_writes_the_rules_by_both_readings(other: str) -> None:
    """The other reading says what differs; the draft by it has the first one as its other reading."""
    answer = OTHERWISE.replace(", OTHER" if "id_only" in other else "OTHER", "" if "id_only" in other else other)
    draft = read_draft(block(RULE + answer), (4, 5), 6)
    (ambiguity,) = draft.ambiguities
    assert (ambiguity.follows, ambiguity.other) == ("v", "w")
    switched = draft.switched(ambiguity)
    expected = {"temporal: 'G !tool:y'": ["G !tool:y"], "id_only: true": [], "message: 'No.'": ["G !tool:x"]}[other]
    assert [rule.rule["temporal"] for rule in switched.rules] == expected
    assert switched.switched(switched.ambiguities[0]).rules == draft.rules
    assert read_draft(draft_text(draft), (4, 5), 6) == draft


def test_a_correction_is_about_the_rules_with_faults(serve: Serve, tmp_path: Path) -> None:
    """The others are not sent, and stay as they are."""
    right, wrong = DRAFT.partition("  - id: card_checked")[0], WRONG
    server = serve(translator(draft=lambda user: right if "allows the sixth book" in user else wrong))
    result = author(tmp_path).drafts([(4, 5)])[0]
    assert not result.problems
    assert result.draft == replace(read_draft(block(DRAFT), (4, 5), 6), rulings=())
    user = server.requests[1]["messages"][-1]["content"]
    assert "card_checked" not in user
    assert "[5]" not in user.partition("Translate these sentences")[2]


def test_a_rule_that_lacks_cases_gets_more_of_them(serve: Serve, tmp_path: Path) -> None:
    """The request shows two of those it has, the answer has only further ones, and all else of the sentence stays."""

    def few(draft: Draft, _: TranslationContext) -> Iterator[Problem]:
        yield from (Problem("mutant", "a change", rule.id) for rule in draft.rules if len(rule.cases) < 4)

    case = '{{id: "{0}", proposed: {{tool: lend, args: {{loans: 1}}}}, label: 0}}'
    cases = ", ".join(case.format(f"case {at}") for at in range(3))
    rule = f'  - {{id: r, quotes: [{{sentence: 4, words: "books"}}], temporal: "G true", cases: [{cases}]}}'
    rule += f"\n{rule.replace('id: r', 'id: also')}"
    rule += '\nambiguous:\n  - {sentence: 4, question: "Which books?", readings: ["all", "some"], follows: 1}'
    more = f"  - {{id: r, cases: [{case.format('further')}]}}"
    answers = iter(f"rules:\n{text}\n" for text in (rule, more.replace("id: r", "id: s"), more, more))
    server = serve(translator(draft=lambda _: next(answers)))
    model = ModelRequests(Meter(load_model("openai/test")), Prompts())
    result = DraftAuthor(context(tmp_path), model, few).drafts([(4,)])[0]
    assert result.draft is not None
    assert [kept["id"] for kept in result.draft.rules[0].cases] == ["case 0", "case 1", "case 2", "further"]
    assert [other.id for other in result.draft.rules] == ["r", "also"]
    assert [each.question for each in result.draft.ambiguities] == ["Which books?"]
    users = [request["messages"][-1]["content"] for request in server.requests]
    assert "case 1" in users[1]
    assert "case 2" not in users[1]
    assert "rules[0]: the key 'quotes' is missing" in users[2]


def test_rules_of_several_drafts_are_corrected_in_one_request(serve: Serve, tmp_path: Path) -> None:
    """Each answer comes back to its draft. Drafts that use a name differently have requests of their own."""
    limit, card = WRONG.split("  - id: card_checked")
    card = f"rules:\n  - id: card_checked{card}".replace(
        '"before(lend', '"forall(lend(loans=n), n < 6) AND before(lend'
    )
    fixed = {"card_checked": "G !tool:lend", "loan_limit": "forall(lend(loans=n), n < 5)"}

    def corrected(more: str) -> tuple[list[Any], int]:
        first = {"[4] A": f"{limit}declarations: {{constants: {{most: 5}}}}\n", "[5] B": f"{card}{more}"}
        if more:
            first = {start: text.replace("n < 6", "n < 6 && n < most") for start, text in first.items()}

        def reply(user: str) -> str:
            task = user.rpartition("MARK is")[2]
            if "have faults" not in task:
                return next(text for start, text in first.items() if start in task)
            rules = (f'{{id: {name}, temporal: "{text}"}}' for name, text in fixed.items() if f"id: {name}" in task)
            return f"rules: [{', '.join(rules)}]\n"

        server = serve(translator(draft=reply))
        results = author(tmp_path).drafts([(4,), (5,)])
        assert not any(result.problems or result.error for result in results)
        texts = [rule.rule["temporal"] for result in results if result.draft for rule in result.draft.rules]
        return texts, len(server.requests)

    assert corrected("") == (["forall(lend(loans=n), n < 5)", "G !tool:lend"], 3)
    assert corrected("declarations: {constants: {most: 4}}\n")[1] == 4


def test_nothing_is_corrected_before_each_draft_is_there(serve: Serve, tmp_path: Path) -> None:
    """The next run makes the same requests, and finds their answers."""
    script, left = translator(draft=WRONG), iter([1])
    server = serve(lambda request: script(request) if next(left, None) else status(401))
    results = author(tmp_path).drafts([(4, 5), (4, 5)])
    assert [result.is_interrupted for result in results] in ([False, True], [True, False])
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("answer", "formula", "cases"),
    [
        ("id: r", "G true", "ok a, ok b, ok c"),
        ("id: r, temporal: 'G false'", "G false", "ok a, ok b, ok c"),
        ("id: r, cases: [{id: b, is: new}, {id: d, is: new}]", "G true", "ok a, ok c, new b, new d"),
        ("id: r, cases: [{id: b}, {id: x}]", "G true", "ok a, ok c"),
        ("id: r, quotes: [{sentence: 4, words: v}]", "G true", "ok a, ok b, ok c"),
        ("id: r, quotes: [{sentence: 4, words: v}], temporal: 'G false'", "G false", "ok c"),
    ],
)
def test_a_rule_is_changed_by_what_its_author_writes(answer: str, formula: str, cases: str) -> None:
    """A whole rule drops the cases that its author saw. Those that they did not see stay."""
    rule = RuleDraft("r", {"temporal": "G true"}, {4: "w"}, tuple({"id": name, "is": "ok"} for name in "abc"))
    existing = {"r": (rule, replace(rule, cases=rule.cases[:2]))}
    (changed,) = read_draft(block(f"rules: [{{{answer}}}]\n"), (4,), 6, existing=existing).rules
    assert (changed.rule["temporal"], changed.quotes) == (formula, {4: "v" if "quotes" in answer else "w"})
    assert ", ".join(f"{case['is']} {case['id']}" for case in changed.cases) == cases


def test_a_correction_counts_for_the_rules_that_it_does_not_break(serve: Serve, tmp_path: Path) -> None:
    """The next request is about the others, and says why theirs was not taken."""

    def limits(draft: Draft, _: TranslationContext) -> Iterator[Problem]:
        for rule in draft.rules:
            for limit in ("< 6", "< 7"):
                if limit in rule.rule["temporal"]:
                    yield Problem("case", f"the limit is {limit}", rule.id, fatal=limit == "< 7")

    first = WRONG.replace('temporal: "before(lend', 'temporal: "forall(lend(loans=n), n < 6) AND before(lend')
    worse = first.replace("n < 6) AND", "n < 7) AND").replace("n < 6", "n < 5")
    answers = iter([first, worse, DRAFT])
    server = serve(translator(draft=lambda _: next(answers)))
    model = ModelRequests(Meter(load_model("openai/test")), Prompts())
    result = DraftAuthor(context(tmp_path), model, limits).drafts([(4, 5)])[0]
    assert (result.problems, len(server.requests)) == ((), 3)
    user = server.requests[2]["messages"][-1]["content"].partition("Some rules")[2]
    assert "was not taken: the limit is < 7" in user
    assert "n < 5" not in user


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "no ```yaml block"),
        ("I cannot help with that.", "no ```yaml block"),
        (block(RULE) + block(RULE), "2 blocks"),
        ("```python\nprint()\n```", "no ```yaml block"),
        (block("rules: []\n"), "no 'rules' and no 'declined'"),
        (block("{}\n"), "no 'rules' and no 'declined'"),
        (block("- rules\n"), "expected a mapping"),
        (block(RULE + "    id: s\n"), "appears twice"),
        (block(RULE + "    cases: [1]\n"), "rules[0].cases[0]: is 1; expected a mapping"),
        (
            block(RULE.replace("sentence: 4", "sentence: true")),
            "rules[0].quotes[0].sentence: is true; expected a whole number",
        ),
        (block(RULE + "declarations: {policies: {}}\n"), "unknown key 'policies'"),
        (block(RULE + "declarations: {toolbox: {a: b}}\n"), "unknown key 'toolbox'"),
        (block("declined: [{sentence: 0, reason: 'No.'}]\n"), "there is no sentence 0; expected the numbers 1 to 6"),
        (block(RULE.replace("sentence: 4", "sentence: 7")), "there is no sentence 7"),
        (block("ambiguous: [{sentence: 7, question: 'a?', readings: ['x', 'y']}]\n"), "there is no sentence 7"),
        (block(RULE + "declarations: {constants: 5}\n"), "declarations.constants: is 5; expected a mapping"),
        (block("facts: [{name: ' '}]\n" + RULE), "the name of a fact is ' '"),
        (block("declined: [{sentence: 4}]\n"), "key 'reason' is missing"),
        (block("ambiguous: [{sentence: 4, question: 'a?', readings: ['x', 'x']}]\n"), "two different"),
        (block(RULE + OWN.replace("follows: 2", "follows: 3")), "the reading 3 is followed; there are 2"),
        (block(RULE + OWN.replace("follows: 2", "follows: 0")), "the reading 0 is followed"),
        (block(RULE + OTHERWISE.replace("follows: 1, ", "").replace("OTHER", "message: 'No.'")), "expected 'follows'"),
        ("x" * 300_000, "at most 200,000"),
        ('rules: "\ud800"\n', "rules: is "),
    ],
)
def test_an_unusable_answer_is_an_error(answer: str, problem: str) -> None:
    with pytest.raises(AnswerError, match=re.escape(problem)):
        read_draft(answer, (4,), 6)


# --- batches of sentences for one request


def test_batches_have_six_sentences(tmp_path: Path) -> None:
    path = tmp_path / "POLICY.md"
    path.write_text("# A\n\n" + "One is first. " * 9 + "\n\n# B\n\nTwo is second.\n")
    sentences = [sentence for sentence in read_document(path).sentences if sentence.kind == "sentence"]
    assert draft_batches(sentences) == ((2, 3, 4, 5, 6, 7), (8, 9, 10, 12))
    assert draft_batches([]) == ()


def test_sentences_that_only_make_sense_together_stay_together(tmp_path: Path) -> None:
    path = tmp_path / "POLICY.md"
    path.write_text(
        "One is required. Two is required. Three is required. Four is required. Five is optional before noon. "
        "Otherwise it is required. In that case a manager is asked.\n\nA refund needs:\n\n- a receipt,\n- a reason,\n"
        "- a date.\n\nThe last one stands alone.\n"
    )
    assert draft_batches(read_document(path).sentences) == ((1, 2, 3, 4), (5, 6, 7), (8, 9, 10, 11, 12))


def test_an_exception_is_drafted_with_its_rule(tmp_path: Path) -> None:
    """As far as one request may have so many sentences; others, and itself, are of no consequence."""
    path = tmp_path / "rules.md"
    path.write_text("".join(f"Rule number {number} holds.\n\n" for number in range(1, 16)))
    sentences = read_document(path).sentences
    assert draft_batches(sentences, {15: (1,)}) == ((1, 2, 3, 4, 5, 15), (6, 7, 8, 9, 10, 11), (12, 13, 14))
    assert draft_batches(sentences, {15: (99, 15)}) == draft_batches(sentences)
    many = draft_batches(sentences, dict.fromkeys(range(2, 16), (1,)))
    assert sorted(number for batch in many for number in batch) == [*range(1, 16)]
    assert max(map(len, many)) == 8


def test_a_long_list_is_split(tmp_path: Path) -> None:
    """Each item has its introduction beside it in the request."""
    path = tmp_path / "POLICY.md"
    path.write_text("A refund needs:\n\n" + "".join(f"- the form {number},\n" for number in range(12)))
    assert [len(draft_batch) for draft_batch in draft_batches(read_document(path).sentences)] == [8, 5]


def test_a_declaration_is_corrected_alone_and_sinks_only_the_rules_that_use_it(serve: Serve, tmp_path: Path) -> None:
    """With other parameters it is the same. The request shows the rules that use it, without most of their cases."""
    bad = "declarations: {define: {few(action): action < 5, unused(action): action < 5}}\n"
    limit = DRAFT.removeprefix("rules:\n").partition("  - id: card_checked")[0]
    other = limit.replace("loan_limit", "card_checked").replace("sentence: 4", "sentence: 5")
    other = other.replace("at most five books on loan", "Before a book is lent, the card is checked")
    answers = iter((f"rules:\n{limit.replace('n < 5', 'few(n)')}{other}{bad}", bad, bad.replace("action", "number")))
    server = serve(translator(draft=lambda _: next(answers)))
    model = ModelRequests(Meter(load_model("openai/test")), Prompts())
    result = DraftAuthor(context(tmp_path), model, examine).drafts([(4, 5)])[0]
    assert result.draft is not None
    assert not [problem for problem in result.problems if problem.fatal]
    assert result.draft.declarations == {"define": {"few(number)": "number < 5"}}
    requests = [request["messages"][-1]["content"].rpartition("have faults")[2] for request in server.requests]
    assert "'action' is a word of the language" in requests[1]
    assert not re.search("unused|card_checked|sixth", requests[1])


@pytest.mark.parametrize("expected", ["Which books?", "Whose books?"])
def test_a_question_stays_when_its_rule_is_corrected(serve: Serve, tmp_path: Path, expected: str) -> None:
    """The answer says what changes alone. One that asks about the sentence has its questions."""
    doubt = 'ambiguous:\n  - {{sentence: 4, question: "{}", readings: ["all", "some"], follows: 1}}\n'
    fixed = 'rules:\n  - {id: loan_limit, temporal: "forall(lend(loans=n), n < 5)"}\n'
    again = doubt.format(expected) if expected != "Which books?" else ""
    answers = iter((WRONG + doubt.format("Which books?"), fixed + again))
    serve(translator(draft=lambda _: next(answers)))
    draft = author(tmp_path).drafts([(4, 5)])[0].draft
    assert draft is not None
    assert draft.rules[0].rule["temporal"] == "forall(lend(loans=n), n < 5)"
    assert [each.question for each in draft.ambiguities] == [expected]
