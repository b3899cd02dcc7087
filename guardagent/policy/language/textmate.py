"""The grammar of rules for editors, in TextMate's format: `python -m guardagent.policy.language.textmate > FILE`.

It is made of the terminals of `language.lark` and the names that `RuleParser` reads itself, so a new form is in it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from guardagent.policy.functions import rule_functions
from guardagent.policy.language.grammar import FORMS, lark_parser
from guardagent.policy.language.term_parser import VALUES, RuleParser

PATH = Path(__file__).with_name("guardagent.tmLanguage.json")
_BEFORE_CALL = r"(?=\s*\()"
_SPECIAL = "_f_"  # the methods of `RuleParser` for forms that the grammar reads as functions


def textmate_grammar() -> dict[str, Any]:
    """The grammar, as JSON."""
    terminals = {terminal.name: terminal.pattern.to_regexp() for terminal in lark_parser().terminals}
    words = {pattern.removesuffix(_BEFORE_CALL) for pattern in terminals.values() if pattern.endswith(_BEFORE_CALL)}
    special = {name.removeprefix(_SPECIAL) for name in dir(RuleParser) if name.startswith(_SPECIAL)}
    functions = {name for name in rule_functions() if name.isidentifier()} | words | special
    pieces = [
        ("comment.line.number-sign", r"#[^\n]*"),
        ("string.quoted.double", terminals["QUOTED"]),
        ("string.quoted.single", terminals["SINGLE"]),
        ("keyword.control", _any_word(FORMS) + _BEFORE_CALL),
        ("support.function", _any_word(functions - {*FORMS}) + _BEFORE_CALL),
        ("keyword.operator.temporal", _any(terminals, "_WITHIN", "UNARY", "BINARY")),
        ("storage.type", _any(terminals, "KIND")),
        ("entity.name.tag", rf"@{terminals['NAME']}"),
        ("entity.name.function", rf"{terminals['NAME']}{_BEFORE_CALL}"),
        ("constant.language", _any(terminals, "_TRUE", "_FALSE")),
        ("keyword.operator.word", rf"\b(?:{_any(terminals, '_IN', '_MATCHES', '_LET', '_WITHIN_TIME')})"),
        ("keyword.operator.logical", _any(terminals, "_IMPLIES", "_OR", "_AND", "_NOT")),
        ("keyword.operator.comparison", terminals["COMPARED"]),
        ("constant.numeric", rf"\b(?:{_any(terminals, 'DURATION', 'NUMBER')})"),
        ("support.variable", _any_word(VALUES) + r"(?!\w)"),
        ("variable.other", terminals["NAME"]),
    ]
    regex = {
        "match": rf"(=|,|\(|\bmatches)\s*({terminals['REGEX']})",
        "captures": {"1": {"name": "keyword.operator.word.guardagent"}, "2": {"name": "string.regexp.guardagent"}},
    }
    patterns = [{"name": f"{name}.guardagent", "match": pattern} for name, pattern in pieces]
    return {
        "name": "GuardAgent rule",
        "scopeName": "source.guardagent",
        "fileTypes": ["guardagent"],
        "patterns": [patterns[0], regex, *patterns[1:]],
    }


def _any(terminals: dict[str, str], *names: str) -> str:
    return "|".join(f"(?:{terminals[name]})" for name in names)


def _any_word(words: Iterable[str]) -> str:
    return rf"\b(?:{'|'.join(sorted(words))})"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(textmate_grammar(), indent=2) + "\n")
