"""Compiles the counters of a policy file, and the conditions of its labels."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from guardagent.errors import InputError
from guardagent.policy.evaluation.counters import Counter
from guardagent.policy.evaluation.history_query import Env, Term
from guardagent.policy.evaluation.operands import CompileError, Library
from guardagent.policy.evaluation.terms import Compiler, Names
from guardagent.policy.file.rule_keys import CounterSource
from guardagent.policy.file.source_tree import SourceText
from guardagent.policy.functions import function
from guardagent.policy.language import ast
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.language.parser import read_rule
from guardagent.policy.language.printer import text_of
from guardagent.policy.language.term_parser import read_term
from guardagent.policy.language.values import as_read, field_of
from guardagent.policy.provenance.readers import LabelCondition

_PREFIX = "forall("  # reads a pattern as the language does
_OF_CALLS = (*ast.OF_HISTORY, ast.CounterValue, ast.TimeOf, ast.Elapsed)
_OF_SESSION = (*_OF_CALLS, ast.Sources, ast.Seen)
_BOUND = re.compile(r"\b(?:all|any|count)\s*\(\s*(\w+)\s+in\b|\blet\s+(\w+)|(\w+)\s*:")  # names that are bound within
_NO_FIELDS = {"now", "principal"}  # the other values of rules are names of fields here
_ITEM = "item"  # the name of the whole item in the condition of a label
_ARGS = "args"  # in the other expressions of a policy file
_FIELDS = "expected a condition on the fields of the output; 'item.%s' is the field of this name"
_NO_NUMBER = (
    *(ast.ListOf, ast.SetOf, ast.SetOperation, ast.And, ast.Or, ast.Negation, ast.Implies, ast.Compare, ast.Matches),
    *(ast.Known, ast.State, ast.Principal),
)


def compile_counter(name: str, source: CounterSource, library: Library) -> Counter:
    """Compiles a counter.

    Args:
        name: its name in rules.
        source: the entry of the policy file.
        library: the names that it can use.

    Raises:
        ContentError: its pattern or an expression is invalid; with the line.
    """
    pattern = _pattern(source.on, library)
    keys = [_term(key, pattern, library) for key in source.keys]
    amounts = [] if source.sum is None else [_amount(source.sum, pattern, library)]
    compiler, names = Compiler(library), Names()
    try:
        match, tools = compiler.proposed(pattern, names), library.tools_of(pattern)
    except CompileError as error:
        raise _error(source.on, str(error), error.place.line, error.place.column - len(_PREFIX)) from None
    places = [*source.keys, *filter(None, [source.sum])]
    terms = [_compiled(*pair, compiler, names) for pair in zip([*keys, *amounts], places, strict=True)]
    return Counter(
        name,
        tools,
        f"{name} {_digest([pattern, *keys, *amounts], len(keys), source.window)}",
        source.window,
        compiler.size,
        match,
        tuple(terms[: len(keys)]),
        terms[-1] if amounts else None,
        is_usage=any(map(ast.is_usage, amounts)),
        reads_zone=any(map(ast.reads_zone, [*keys, *amounts])),
    )


def _digest(definition: Sequence[object], keys: int, window: float | None) -> str:
    written = "\n".join([*map(text_of, definition), f"{keys} {window}"])
    return hashlib.sha256(written.encode()).hexdigest()[:16]


def _pattern(source: SourceText, library: Library) -> ast.Pattern:
    try:
        rule = read_rule(f"{_PREFIX}{source.text}\n, True)", library.names)
    except TemporalError as error:
        _fail(source, error, len(_PREFIX))
    if not isinstance(rule, ast.Forall) or rule.condition != ast.TRUE:
        raise source.error("'on' is not one call pattern; expected a pattern such as refund(customer=c, amount=a)")
    if rule.pattern.label:
        raise source.error(f"the label {rule.pattern.label!r} has no use here; bind arguments to variables instead")
    return rule.pattern


def compile_condition(when: LabelCondition, library: Library) -> LabelCondition:
    """Compiles the condition of a label. Names that the file does not declare are fields of the item.

    Raises:
        ContentError: it is invalid; with the line.
    """
    library = library.scoped(when.scopes)
    declared, compiler = library.names, Compiler(library)
    known = {**declared.constants, **declared.definitions}
    bound = {name for names in _BOUND.findall(when.text.text) for name in names}
    named = dict.fromkeys([_ITEM, *re.findall(r"[^\W\d]\w*", when.text.text)])
    fields = [name for name in named if name not in bound | _NO_FIELDS and declared.find(name, known) is None]
    node = _read(when.text, fields, library, _OF_CALLS, "the fields of the output, the state and facts", truth=True)
    if _ARGS in fields and ast.Variable(_ARGS) in ast.walk(node):
        raise when.text.error(f"'args' is the arguments of a call; {_FIELDS % 'args'}")
    if any(isinstance(part, ast.Now) for part in ast.walk(node)):
        raise when.text.error(f"'now' is another time when a session is restored; {_FIELDS % 'now'}")
    slots = {name: compiler.place() for name in fields}
    term = _compiled(node, when.text, compiler, slots)

    def test(context: Any, item: Any) -> Any:
        env: Env = [context, *[None] * (compiler.size - 1)]
        for name, slot in slots.items():
            env[slot] = as_read(item) if name == _ITEM else field_of(item, name)
        return term(env)

    return replace(when, labels=frozenset(ast.labels_in(node)), test=test)


def _term(source: SourceText, pattern: ast.Pattern, library: Library) -> ast.Term:
    return _read(source, ast.names_in(pattern), library, _OF_SESSION, "the call alone")


def _read(
    source: SourceText, names: Collection[str], library: Library, refused: Any, expected: str, *, truth: bool = False
) -> ast.Term:
    try:
        term = read_term(source.text, names, library.names, truth=truth)
    except TemporalError as error:
        _fail(source, error)
    for node in ast.walk(term):
        if isinstance(node, refused):
            raise source.error(f"{text_of(node)[:60]!r} reads other calls; expected an expression over {expected}")
    return term


def _amount(source: SourceText, pattern: ast.Pattern, library: Library) -> ast.Term:
    term = _term(source, pattern, library)
    if _is_no_number(term):
        raise source.error(f"'sum' is {text_of(term)[:60]!r}, which is not a number; expected an amount")
    if isinstance(term, ast.Constant) and term.value < 0:
        raise source.error(f"'sum' is {text_of(term)}; expected an amount from 0, since a counter never falls")
    if not ast.is_usage(term) and any(map(ast.is_usage, ast.walk(term))):
        raise source.error("'sum' computes with the usage of models; expected 'usage.tokens' or 'usage.cost' alone")
    return term


def _is_no_number(term: ast.Term) -> bool:
    if isinstance(term, ast.Constant):
        return isinstance(term.value, str | bool)
    if isinstance(term, ast.OverItems):
        return term.which != "count"
    known = function(term.function) if isinstance(term, ast.Apply) else None
    return isinstance(term, _NO_NUMBER) or (known is not None and known.result not in ("", "number"))


def _compiled(term: ast.Term, source: SourceText, compiler: Compiler, names: Names) -> Term:
    try:
        return compiler.term(term, names)
    except CompileError as error:
        raise _error(source, str(error), error.place.line, error.place.column) from None
    except InputError as error:
        raise source.error(str(error)) from None


def _fail(source: SourceText, error: TemporalError, offset: int = 0) -> NoReturn:
    column = error.column - (offset if error.line == 1 else 0)
    raise _error(source, error.problem, error.line, column) from None


def _error(source: SourceText, problem: str, line: int, column: int) -> InputError:
    lines = source.text.splitlines() or [""]
    if line > len(lines):  # the end of the pattern, as the reader of rules sees it
        line, column = len(lines), len(lines[-1]) + 1
    column = max(1, column)
    return source.error(str(TemporalError(problem, source.text, line, column)), line, column)
