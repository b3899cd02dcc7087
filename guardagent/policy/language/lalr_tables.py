"""Generates `language.json`, the LALR tables: `python -m guardagent.policy.language.lalr_tables`."""

from __future__ import annotations

import json
import re
from pathlib import Path
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
    """A literal prefix of the terminal, if one is evident, and its pattern. It saves compiling most patterns."""
    text = pattern.to_regexp()
    if pattern.type == "str":
        return [pattern.value, text]
    plain = re.match(r"[A-Za-z]+(?=\(\?[^|]*$)", text)
    return [plain[0] if plain else "", text]


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
    options, kept, absent = rule.options, [], 0
    missing = "".join("1" if is_empty else "0" for is_empty in options.empty_indices or [False] * len(rule.expansion))
    before = [len(ones) for ones in missing.split("0")]
    for at, symbol in enumerate(rule.expansion):
        absent += before[at]
        if options.keep_all_tokens or not (symbol.is_term and symbol.filter_out):
            kept.append([at, not symbol.is_term and symbol.name.startswith("_"), absent])
            absent = 0
    last = absent + before[len(rule.expansion)]
    name = str(rule.alias or options.template_source or rule.origin.name)
    return [str(rule.origin.name), len(rule.expansion), name, kept, last, bool(options.expand1 and not rule.alias)]


if __name__ == "__main__":
    PATH.write_text(tables(), encoding="utf-8")
