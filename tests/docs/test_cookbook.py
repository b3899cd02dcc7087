"""Every rule of docs/cookbook.md is loaded unchanged, and gives the verdicts that the page shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from guardagent import Session, Verdict, load_policies
from tests.docs.test_docs import BLOCK

Write = Callable[..., Path]
PAGE = Path(__file__).parents[2] / "docs" / "cookbook.md"
LINE = re.compile(
    r"(?P<tool>\w+)\((?P<args>.*?)\)(?: \[(?P<tags>[\w, ]+)\])?(?: -> (?P<outcome>.+?))?"
    r"(?:\s{2,}(?P<verdict>(?:allow|warn|deny|escalate|halt)(?:: .+)?))?"
)


@dataclass
class Recipe:
    """A section of the page: its policy file, the files that the policy refers to, and its conversations."""

    title: str
    files: dict[str, str] = field(default_factory=dict)
    policy: str = ""
    conversations: list[list[str]] = field(default_factory=list)


def lines(conversation: str) -> list[str]:
    """Returns the calls of a conversation; a long verdict stands below its call, by 4 spaces, and goes on by 6."""
    return re.sub(r"\n {4}(?=\S)", "  ", re.sub(r"\n {6}(?=\S)", " ", conversation)).splitlines()


def recipes() -> Iterator[Recipe]:
    for section in PAGE.read_text(encoding="utf-8").split("\n### ")[1:]:
        recipe = Recipe(section.partition("\n")[0])
        for block in BLOCK.finditer(section):
            if block["file"]:
                recipe.files[block["file"]] = block["text"]
            elif block["kind"] == "yaml":
                recipe.policy = block["text"]
            elif block["kind"] == "text":
                recipe.conversations += [lines(part) for part in block["text"].strip().split("\n\n")]
        yield recipe


RECIPES = list(recipes())


class Conversation:
    """Plays the lines of one conversation."""

    def __init__(self, start: Callable[..., Session]) -> None:
        self._facts: dict[str, Any] = {}
        self._state: dict[str, Any] = {}
        self._session = start(state=lambda: self._state)
        self._last: Verdict | None = None

    def play(self, line: str) -> str:
        """Returns the result of a line in the notation of the page; empty for lines that set facts or state."""
        match = LINE.fullmatch(line)
        assert match, f"not understood: {line}"
        args = {keyword.arg: ast.literal_eval(keyword.value) for keyword in _call(match).keywords if keyword.arg}
        match match["tool"]:
            case "facts":
                self._facts |= args
                return ""
            case "state":
                self._state |= args
                return ""
            case "approve":
                assert self._last
                verdict = self._session.approve(self._last)
            case "finish":
                return _summary(self._session.finish())
            case tool:
                tags = (match["tags"] or "").replace(",", " ").split()
                verdict = self._session.check(tool, args, facts=self._facts, tags=tags)
        self._last = verdict
        if verdict.label == 0:
            self._record(match["outcome"], verdict)
        return _summary(verdict)

    def _record(self, outcome: str | None, verdict: Verdict) -> None:
        failed = outcome == "failed"
        output = None if failed or outcome is None else ast.literal_eval(outcome)
        self._session.record(output, failed=failed, permit=verdict.permit)


def expected(line: str) -> str:
    match = LINE.fullmatch(line)
    return (match["verdict"] if match else None) or ""


def _call(match: re.Match[str]) -> ast.Call:
    parsed = ast.parse(f"{match['tool']}({match['args']})", mode="eval").body
    assert isinstance(parsed, ast.Call)
    return parsed


def _summary(verdict: Verdict) -> str:
    return ": ".join([str(verdict.decision), *(["; ".join(verdict.reasons)] if verdict.reasons else [])])


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_a_rule_judges_as_its_page_says(recipe: Recipe, write: Write) -> None:
    """Each conversation is one session; the verdicts and reasons of its calls are those on the page."""
    for name, text in recipe.files.items():
        write(name, text)
    policies = load_policies(write("policies.yaml", recipe.policy))
    for calls in recipe.conversations:
        conversation = Conversation(policies.session)
        for line in calls:
            assert conversation.play(line) == expected(line), line


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_a_rule_shows_both_sides(recipe: Recipe) -> None:
    """The conversations contain a call that is allowed, and a step that is not."""
    lines_shown = [line for calls in recipe.conversations for line in calls]
    assert any(line.endswith("  allow") for line in lines_shown)
    assert any(re.search(r"  (warn|deny|escalate|halt): ", line) for line in lines_shown)


def test_there_are_at_least_twenty() -> None:
    """Each recipe has its own title."""
    assert len({recipe.title for recipe in RECIPES}) == len(RECIPES) >= 20
