"""A small policy document of a library, its tools, and a scripted model that translates it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from guardagent.policy.documents import read_document
from guardagent.translation.context import TranslationContext
from guardagent.translation.readings.cases import case_text
from guardagent.translation.tools import ToolSchema
from tests.models.server import Reply, text

DOCUMENT = """\
# Lending rules

Members are people with a card.

## Loans

A member may have at most five books on loan.
Before a book is lent, the card is checked.
Greet every member warmly.
"""
STRING: Mapping[str, Any] = {"type": "string"}
TOOLS = (
    ToolSchema("check_card", "Checks a card.", {"type": "object", "properties": {"member": STRING}}),
    ToolSchema(
        "lend",
        "Lends books.",
        {"type": "object", "properties": {"member": STRING, "loans": {"type": "integer"}, "book": STRING}},
    ),
)
SURVEY = """\
sentences:
  - {number: 1, fate: definition}
  - {number: 2, fate: definition}
  - {number: 3, fate: definition}
  - {number: 4, fate: rule}
  - {number: 5, fate: rule}
  - {number: 6, fate: not_enforceable, reason: "No call shows how warm a greeting is."}
failed_output: "^Error"
"""
DRAFT = """\
rules:
  - id: loan_limit
    quotes: [{sentence: 4, words: "at most five books on loan"}]
    temporal: "forall(lend(loans=n), n < 5)"
    message: "A member has at most five books."
    cases:
      - {id: "fifth", proposed: {tool: lend, args: {loans: 4}}, label: 0}
      - {id: "first", proposed: {tool: lend, args: {loans: 0}}, label: 0}
      - {id: "sixth", proposed: {tool: lend, args: {loans: 5}}, label: 1, rules: [loan_limit]}
      - {id: "unknown", proposed: {tool: lend, args: {}}, label: 1, rules: []}
  - id: card_checked
    quotes: [{sentence: 5, words: "Before a book is lent, the card is checked"}]
    temporal: "before(lend(member=m), true, f:check_card(member=m), true)"
    message: "The card is checked before a book is lent."
    cases:
      - id: checked
        history: [{tool: check_card, args: {member: "m1"}, output: "ok"}]
        proposed: {tool: lend, args: {member: "m1"}}
        label: 0
      - {id: "not checked", proposed: {tool: lend, args: {member: "m1"}}, label: 1, rules: [card_checked]}
      - id: another card
        history: [{tool: check_card, args: {member: "m2"}, output: "ok"}]
        proposed: {tool: lend, args: {member: "m1"}}
        label: 1
        rules: [card_checked]
      - id: failed
        history: [{tool: check_card, args: {member: "m1"}, output: "Error: no such card"}]
        proposed: {tool: lend, args: {member: "m1"}}
        label: 1
        rules: [card_checked]
      - {id: "no member", proposed: {tool: lend, args: {}}, label: 1, rules: []}
"""

Answer = str | Callable[[str], str]


def block(answer: str) -> str:
    return f"I considered it.\n\n```yaml\n{answer}```\n"


def context(folder: Path, document: str = DOCUMENT, **others: Any) -> TranslationContext:
    """The inputs of a translation of a Markdown document."""
    path = folder / "POLICY.md"
    path.write_text(document)
    return TranslationContext(read_document(path), TOOLS, folder=folder, **others)


def sentences_of(request: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
    """The template of a request, and the numbers of the sentences, or of the cases, that it is about."""
    user = request["messages"][-1]["content"]
    kinds = {"You sort the sentences": "survey", "You read cases": "read_cases"}
    template = next((name for words, name in kinds.items() if words in user), "draft")
    label = "cases" if template == "read_cases" else "sentences"
    listed = template == "survey" or "have faults" in user
    number = r"(\d+)" if listed else r"^(\d+)\. " if template == "read_cases" else r"^\[(\d+)\]"
    wanted = re.search(rf"<data {label} \w+>\n(.*?)\n</data", user, re.DOTALL)
    assert wanted, "a request names its sentences"
    return template, tuple(int(match) for match in re.findall(number, wanted[1], re.MULTILINE))


def case_sentences(user: str) -> list[int]:
    """The first sentence of each case of a request."""
    wanted = re.search(r"<data cases \w+>\n(.*?)\n</data", user, re.DOTALL)
    assert wanted, "a request names its cases"
    return [int(match) for match in re.findall(r"^\d+\. \[(\d+)\]", wanted[1], re.MULTILINE)]


Labels = Mapping[str, int]
"""The labels of cases, by their `situation`."""


def situation(case: Mapping[str, Any]) -> str:
    return case_text(case)


def labels_of(draft: str) -> Labels:
    """The labels that the author of a draft expects."""
    rules = yaml.safe_load(draft).get("rules", [])
    return {situation(case): case["label"] for rule in rules for case in rule.get("cases", [])}


def case_answer(user: str, labels: Labels) -> str:
    """The reading of the cases of a request; a case that nobody labelled is unclear."""
    wanted = re.search(r"<data cases \w+>\n(.*?)\n</data", user, re.DOTALL)
    assert wanted, "a request names its cases"
    verdicts = {0: "fine", 1: "against", None: "unclear"}
    entries = [
        {"case": int(number), "verdict": verdicts[labels.get(case)], "why": "By the words."}
        for number, case in re.findall(r"^(\d+)\. (?:\[\d+\] )+(.*)$", wanted[1], re.MULTILINE)
    ]
    return json.dumps({"cases": entries}) + "\n"


def translator(
    survey: Answer = SURVEY, draft: Answer = DRAFT, read: Answer | None = None
) -> Callable[[dict[str, Any]], Reply]:
    """A script of the server. An answer is YAML, or a function of the user's message; prose is sent as it is.

    Without `read`, the cases are read as the last draft expects them.
    """
    labels: dict[str, int] = {}

    def reply(request: dict[str, Any]) -> Reply:
        template, user = sentences_of(request)[0], request["messages"][-1]["content"]
        answers: dict[str, Answer] = {
            "survey": survey,
            "draft": draft,
            "read_cases": read if read is not None else lambda user: "cases: " + case_answer(user, labels)[9:-2] + "\n",
        }
        answer = answers[template]
        content = answer(user) if callable(answer) else answer
        if template == "draft" and content.startswith("rules:"):
            labels.update(labels_of(content))
        return text(block(content) if ":" in content.partition("\n")[0] else content)

    return reply
