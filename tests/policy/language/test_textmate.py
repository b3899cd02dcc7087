"""The grammar for editors is made of the parser's own tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from guardagent.policy.functions import rule_functions
from guardagent.policy.language import grammar
from guardagent.policy.language.textmate import PATH, textmate_grammar

LARK = Path(grammar.__file__).with_name("language.lark").read_text(encoding="utf-8")
BEFORE_CALL = re.findall(r"^_?[A-Z_]+(?:\.\d)?: /(\w+)\(\?=\\s\*\\\(\)/", LARK, re.MULTILINE)
FUNCTIONS = [name for name in rule_functions() if name.isidentifier()]
CALLS = [*BEFORE_CALL, *FUNCTIONS, "sources", "seen", "counter", "time", "tool", "text"]
SCOPES = {
    "AND": "keyword.operator.logical",
    "G": "keyword.operator.temporal",
    "U": "keyword.operator.temporal",
    "F[<=2] p": "keyword.operator.temporal",
    "matches": "keyword.operator.word",
    "let x = 1": "keyword.operator.word",
    "in": "keyword.operator.word",
    "true": "constant.language",
    "24h": "constant.numeric",
    "0.5": "constant.numeric",
    "now": "support.variable",
    "tool:x": "storage.type",
    "@writes": "entity.name.tag",
    "refund(": "entity.name.function",
    "allow_list": "variable.other",
    '"a # b"': "string.quoted.double",
    "# any(": "comment.line.number-sign",
    "nowhere": "variable.other",
    "Gain": "variable.other",
}


def scope(text: str) -> str:
    """The scope of the first token of a text."""
    for pattern in textmate_grammar()["patterns"]:
        if re.match(pattern["match"], text):
            return str(pattern.get("name", "")).removesuffix(".guardagent")
    raise AssertionError(text)


def test_the_file_is_current() -> None:
    """Run `python -m guardagent.policy.language.textmate > FILE` after a change of the language."""
    assert json.loads(PATH.read_text(encoding="utf-8")) == json.loads(json.dumps(textmate_grammar()))


def test_each_form_has_a_keyword() -> None:
    """Of rules, of the history, and the functions."""
    assert {"forall", "since", "previous", "distinct", "pending"} <= {*CALLS}
    assert {word: scope(f"{word}(x)") for word in CALLS} == {
        word: "keyword.control" if word in grammar.FORMS else "support.function" for word in CALLS
    }


@pytest.mark.parametrize("text", SCOPES)
def test_tokens_have_their_scopes(text: str) -> None:
    """Names that begin like a keyword are names."""
    assert scope(text) == SCOPES[text]


def test_a_division_is_no_regular_expression() -> None:
    """One stands behind `=`, a comma, a parenthesis or `matches`."""
    (pattern,) = (pattern["match"] for pattern in textmate_grammar()["patterns"] if "captures" in pattern)
    assert re.search(pattern, "x matches /a b/")
    assert not re.search(pattern, "a / b / c")
