"""Rules connect the enforceable sentences that they quote; nothing of a draft is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from guardagent.policy.review.record import NeededFact
from guardagent.translation.drafts import Ambiguity, Draft, RuleDraft
from guardagent.translation.readings.group_reading import read_group, sentence_groups
from tests.translation.readings.ambiguous_document import context_of, tool


def rule(name: str, *sentences: int, text: str = "G !tool:x") -> RuleDraft:
    """Returns a rule that quotes sentences."""
    return RuleDraft(name, {"temporal": text}, dict.fromkeys(sentences, "…"))


def draft(sentences: Sequence[int], *rules: RuleDraft, **keys: Any) -> Draft:
    """Returns a draft of sentences."""
    return Draft(tuple(sentences), rules, **keys)


def test_rules_of_either_side_connect() -> None:
    """Definitions do not."""
    first = [draft([1, 2, 3, 4], rule("a", 1, 2, 9), rule("b", 4, 9))]
    second = [draft([1, 2], rule("c", 1), rule("d", 2)), draft([3, 4], rule("e", 3), rule("f", 4))]
    groups = sentence_groups(first, second, {1, 2, 3, 4})
    assert [group.sentences for group in groups] == [(1, 2), (3,), (4,)]
    assert [[rule.id for draft in group.drafts for rule in draft.rules] for group in groups] == [
        ["a", "c", "d"],
        ["e"],
        ["b", "f"],
    ]
    assert groups[0].grounds == (1, 2, 9)


def test_a_rule_without_an_enforceable_sentence_has_a_group() -> None:
    """It has the sentences that it quotes; a rule that quotes none is reported."""
    draft_result = draft([1, 9], rule("a", 1), rule("b", 9), rule("c"))
    groups = sentence_groups([draft_result], [draft_result], {1})
    assert [[rule.id for rule in group.drafts[0].rules] for group in groups] == [["c"], ["a"], ["b"]]
    group_reading = read_group(groups[0], context_of(["x"] * 9, [tool("x", {})]), {})
    assert [(finding.kind, finding.rules) for finding in group_reading.findings] == [("ungrounded_rule", ("c",))]


def test_a_side_without_a_draft_of_all_sentences_is_missing() -> None:
    """The group has one draft, and is not confirmed."""
    groups = sentence_groups([draft([1, 2], rule("a", 1, 2))], [draft([1], rule("b", 1))], {1, 2, 3})
    assert [(group.first is None, group.second is None) for group in groups] == [(False, True), (True, True)]


def test_what_rules_need_goes_with_them() -> None:
    """Declarations that other declarations mention as well; facts; what is said about the sentences."""
    draft_result = draft(
        [1, 2],
        rule("a", 1, text="forall(@writes(n=n), small(n) && fact(vip))"),
        rule("b", 2, text="G !tool:y"),
        declarations={
            "tags": {"writes": ["x"], "reads": ["y"]},
            "define": {"small(n)": "n < most", "smaller(n)": "n < 1"},
            "constants": {"most": 5, "least": 1},
        },
        facts=(NeededFact("vip"), NeededFact("old")),
        declined={3: "no tool"},
        ambiguities=(Ambiguity(2, "Which?", ("a", "b")), Ambiguity(8, "Who?", ("a", "b"))),
        rulings=("case-1",),
    )
    first, second, third, other = (group.first for group in sentence_groups([draft_result], [], {1, 2}))
    assert first
    assert second
    assert third
    assert other
    assert first.declarations == {
        "tags": {"writes": ["x"]},
        "define": {"small(n)": "n < most"},
        "constants": {"most": 5},
    }
    assert (first.facts, second.declarations, second.facts) == ((NeededFact("vip"),), {}, ())
    assert (third.declined, first.rulings) == ({3: "no tool"}, ("case-1",))
    assert [[ambiguity.sentence for ambiguity in each.ambiguities] for each in (first, second, third, other)] == [
        [],
        [2],
        [],
        [8],
    ]


def test_drafts_that_cannot_stand_together_are_reported() -> None:
    """The same name has two meanings, or the same id is that of two rules."""
    context = context_of(["x", "y"], [tool("x", {"n": "number"})])
    limits = [
        draft([at], rule(f"r{at}", 1, 2, text="forall(x(n=n), n < most)"), declarations={"constants": {"most": at}})
        for at in (1, 2)
    ]
    twice = [draft([1], rule("r", 1, 2)), draft([2], rule("r", 1, 2))]
    for side in (limits, twice):
        (group,) = sentence_groups(side, [limits[0]], {1, 2})
        group_reading = read_group(group, context, {})
        assert "expected another" in group.problems[0]
        assert {"incompatible_drafts", "single_reading"} <= {
            finding.kind for finding in group_reading.findings if finding.blocking
        }


NUMBERS = st.integers(1, 6)
RULES = st.lists(st.frozensets(NUMBERS, max_size=3), max_size=5)


@given(RULES, RULES, st.frozensets(NUMBERS))
def test_nothing_is_lost(first: Any, second: Any, enforceable: frozenset[int]) -> None:
    """Each enforceable sentence is in one group, and each rule once on its side."""
    sides = [
        draft(range(1, 7), *(rule(f"{side}{at}", *quotes) for at, quotes in enumerate(listed)))
        for side, listed in (("a", first), ("b", second))
    ]
    groups = sentence_groups([sides[0]], [sides[1]], enforceable)
    numbers = [number for group in groups for number in group.sentences]
    assert len(numbers) == len(set(numbers))
    assert enforceable <= set(numbers)
    for at, side in enumerate(sides):
        ids = [rule.id for group in groups for rule in group.drafts[at].rules]
        assert sorted(ids) == sorted(rule.id for rule in side.rules)
