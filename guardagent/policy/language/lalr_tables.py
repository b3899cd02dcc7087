"""Generates `language.json`, the LALR tables: `python -m guardagent.policy.language.lalr_tables`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from re import _parser  # exported nowhere
from typing import Any

from lark.parsers.lalr_analysis import Shift

from guardagent.policy.language.grammar import lark_parser

PATH = Path(__file__).with_name("language.json")


def tables() -> str:
    """The tables of Lark's parser and lexer as JSON."""
    lark: Any = lark_parser()
    inner = lark.parser.parser._parse_table  # noqa: SLF001 - Lark only exports them as a pickle
    rules = {rule: at for at, rule in enumerate(lark.rules)}
    number = _numbered(inner)
    lexers: list[Any] = []
    states: list[Any] = []
    for state in number:
        actions = inner.states[state].items()
        codes = {str(name): number[to] if action is Shift else -rules[to] - 1 for name, (action, to) in actions}
        lexer = _lexer(lark.parser.lexer.lexers[state])
        lexers += [] if lexer in lexers else [lexer]
        states.append([lexers.index(lexer), codes])
    tables = {
        "terminals": {terminal.name: _terminal(terminal.pattern) for terminal in lark.terminals},
        "ignored": lark.ignore_tokens,
        "lexers": lexers,
        "states": states,
        "rules": [_rule(rule) for rule in rules],
        "starts": {start: [number[at], number[inner.end_states[start]]] for start, at in inner.start_states.items()},
    }
    return json.dumps(tables, separators=(",", ":"), sort_keys=True) + "\n"


def _terminal(pattern: Any) -> list[str]:
    """A literal prefix of the terminal, if one is evident, the characters that it can begin with, and its pattern."""
    text = pattern.to_regexp()
    plain = re.match(r"[A-Za-z]+(?=\(\?[^|]*$)", text)
    begin = pattern.value if pattern.type == "str" else plain[0] if plain else ""
    return [begin, begin[:1] or "".join(sorted(_first(_parser.parse(text)))), text]


def _first(parsed: Any) -> set[str]:
    """The ASCII characters that a match of a parsed regular expression can begin with."""
    kind, value = next((str(kind), value) for kind, value in parsed if "ASSERT" not in str(kind))
    if kind == "LITERAL":
        return {chr(value)}
    if kind == "RANGE":
        return set(map(chr, range(value[0], value[1] + 1)))
    if kind == "CATEGORY":  # the white space between tokens
        return set(filter(str.isspace, map(chr, range(128))))
    inner = value[1] if kind == "BRANCH" else [[item] for item in value] if kind == "IN" else [value[-1]]
    return set().union(*map(_first, inner))


def _numbered(table: Any) -> dict[int, int]:
    """Numbers the states in the order of traversal. Lark's own numbers differ between processes."""
    reached = [table.start_states[start] for start in sorted(table.start_states)]
    for state in reached:
        actions = sorted(table.states[state].items(), key=lambda item: str(item[0]))
        ahead = dict.fromkeys(to for _, (action, to) in actions if action is Shift)
        reached += [to for to in ahead if to not in reached]
    return {state: at for at, state in enumerate(reached)}


def _lexer(lexer: Any) -> list[Any]:
    """The terminals in order of priority, and keywords that have terminals of their own."""
    tried = [terminal.name for terminal in lexer.scanner.terminals]
    words = {name: unless.scanner.terminals for name, unless in lexer.callback.items()}
    return [
        tried,
        {name: {terminal.pattern.value: terminal.name for terminal in terminals} for name, terminals in words.items()},
    ]


def _rule(rule: Any) -> list[Any]:
    options = rule.options
    kept: list[int | list[int] | None] = []
    missing = "".join("1" if is_empty else "0" for is_empty in options.empty_indices or [False] * len(rule.expansion))
    before = [len(ones) for ones in missing.split("0")]
    for at, symbol in enumerate(rule.expansion):
        kept += [None] * before[at]
        if options.keep_all_tokens or not (symbol.is_term and symbol.filter_out):
            kept.append([at] if not symbol.is_term and symbol.name.startswith("_") else at)
    kept += [None] * before[len(rule.expansion)]
    name = str(rule.alias or options.template_source or rule.origin.name)
    single = bool(options.expand1 and not rule.alias)
    is_chain = single and len(rule.expansion) == 1 and kept == [0]
    return [str(rule.origin.name), len(rule.expansion), name, None if is_chain else kept, single]


if __name__ == "__main__":
    PATH.write_text(tables(), encoding="utf-8")
