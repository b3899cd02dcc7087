"""An SMT-LIB 2 policy, parsed once, and the questions about it."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from guardagent.errors import name_hint
from guardagent.policy.solver.question import Question
from guardagent.policy.solver.script import Assertion, Script, SExprReader, SmtError
from guardagent.policy.solver.sources import SolverContext, context_of
from guardagent.policy.solver.z3_text import (
    Domains,
    Edit,
    SolverResult,
    Sort,
    VariableDeclaration,
    Z3Text,
    blanked,
    character_edits,
    check_term,
    parsed,
    solver_module,
    sort_of,
    term_of,
)
from guardagent.types import EMPTY

__all__ = ["Assertion", "Encoding", "Question", "SmtError", "SolverResult", "VariableDeclaration"]


_BUILT_IN = frozenset({"Bool", "Int", "Real", "String", "RegLan"})
_SYMBOL = re.compile(r"[A-Za-z~!@$%^&*_+=<>.?/-][A-Za-z0-9~!@$%^&*_+=<>.?/-]*")


class Encoding:
    """The declarations and assertions of a policy. It is immutable, and threads may share it.

    Attributes:
        constants: the constants declared by the text or the policy file, with their sorts.
        enumerations: the values of enumeration sorts, by name.
        assertions: the assertions, in the order of the text.
        comments: the comments of declarations, by name.
        meanings: those of `Script`, with the enumerations of the policy file.
    """

    def __init__(self, script: Script, written: Z3Text, names: Mapping[str, str], sorts: Hashable) -> None:
        self._written, self._names = written, list(names)
        self._known = sorted({*script.symbols, *names})
        self._recursive = script.recursive  # Z3 cannot define a recursive function twice in one context
        self._context = SolverContext() if script.recursive else context_of(sorts)
        self.assertions = tuple(script.assertions)
        self.comments: Mapping[str, str] = script.comments
        with self._context.lock:
            constants = self._parsed(self._context.z3)[1]
            self.constants: Mapping[str, Sort] = {name: sort_of(term.sort()) for name, term in constants.items()}
        enumerations = {sort.name: sort.values for sort in self.constants.values() if sort.values is not None}
        self.enumerations: Mapping[str, tuple[str, ...]] = {**script.enumerations, **enumerations}
        self.meanings: Mapping[str, Hashable] = {**script.meanings, **enumerations}

    @classmethod
    def read(cls, text: str, declared: Mapping[str, VariableDeclaration]) -> Encoding:
        """Reads a policy.

        Args:
            text: SMT-LIB 2 commands.
            declared: variables of the policy file; their sorts must agree with those of the text.

        Raises:
            SmtError: the text or a declaration is invalid.
            InputError: Z3 is not installed.
        """
        script = Script(text)
        silent = [blanked(text, form.start, form.end) for form in script.ignored]
        edits = character_edits(text)
        inside = [edit for edit in edits if not any(form.start <= edit.start < form.end for form in silent)]
        names = {name: constant.written for name, constant in script.constants.items()}
        names.update({name: _quote_symbol(name) for name in declared})
        equalities = Edit(len(text), len(text), "".join(f"\n(assert (= {name} {name}))" for name in names.values()))
        written = Z3Text(text, [*_declarations(script, declared), *silent, *inside, equalities])
        new_sorts = {repr((constant.sort, constant.enum)) for constant in declared.values() if constant.enum}
        encoding = cls(script, written, names, frozenset({*script.sort_declarations, *new_sorts}))
        for name, variable_declaration in declared.items():
            encoding._check_agreement(name, variable_declaration, script)
        return encoding

    def _parsed(self, context: Any, permit: Z3Text | None = None) -> tuple[list[Any], dict[str, Any]]:
        """Returns the assertions and the permit as Z3 terms, and the constants, taken from added `(= c c)`."""
        terms = parsed(self._written, context, self._known, permit)
        count, wanted = len(terms) - len(self._names), len(self.assertions) + (permit is not None)
        if count != wanted:
            raise SmtError(f"Z3 reads {count} assertions, but the text has {wanted}")
        equalities = terms[len(self.assertions) : len(self.assertions) + len(self._names)]
        constants = {name: term.arg(0) for name, term in zip(self._names, equalities, strict=True)}
        return terms[: len(self.assertions)] + terms[len(self.assertions) + len(self._names) :], constants

    def _check_agreement(self, name: str, declared: VariableDeclaration, script: Script) -> None:
        constant = script.constants.get(name)
        if constant is None or declared.sort is None or declared.sort == self.constants[name].name:
            return
        symbol = self.constants[name].name
        problem = f"{name!r} has the sort '{symbol}'; expected '{declared.sort}', as the policy file declares"
        raise script.reader.error(problem, constant.start)

    def question(self, permit: str, variables: Sequence[str], domains: Domains = EMPTY) -> Question:
        """Returns the question whether a predicate permits a call.

        Args:
            permit: the predicate: a term of sort Bool.
            variables: the constants whose values are known at a call, in this order.
            domains: the allowed values of variables that the solver may choose, if restricted.

        Raises:
            SmtError: the permit is invalid, or a variable is not declared.
        """
        check_term(permit)
        for name in variables:
            if name not in self.constants:
                raise SmtError(f"unknown variable {name!r}{name_hint(name, self.constants)}")
        rewritten = Z3Text(permit, character_edits(permit))
        sorts = {name: self.constants[name] for name in variables}
        context = SolverContext() if self._recursive else self._context
        with context.lock:
            terms, constants = self._parsed(context.z3, rewritten)
            terms[-1] = _restrict_domains(terms[-1], constants, domains)
            return Question(terms, {name: constants[name] for name in sorts}, sorts, context.lock)


def _restrict_domains(permit: Any, constants: Mapping[str, Any], domains: Domains) -> Any:
    """Restricts variables of the permit to their domains."""
    z3 = solver_module()
    for name, values in domains.items():
        permit = z3.And(permit, z3.Or([constants[name] == term_of(value, constants[name]) for value in values]))
    return permit


def _declarations(script: Script, declared: Mapping[str, VariableDeclaration]) -> list[Edit]:
    """Declares the variables that only the policy file declares, right after their sorts."""
    edits: list[Edit] = []
    new_sorts: dict[str, tuple[Any, ...]] = {}
    for name, variable_declaration in declared.items():
        if name in script.constants:
            continue
        if variable_declaration.sort is None:
            raise SmtError(f"{name!r} is not declared{name_hint(name, script.constants)}, or add its 'sort:'")
        if name in script.symbols:
            raise SmtError(f"{name!r} is already a name in the SMT-LIB text; choose another name")
        edits += _new_sort(script, variable_declaration, new_sorts)
        place = script.sorts.get(variable_declaration.sort, script.logic_end)
        known = variable_declaration.sort in new_sorts or variable_declaration.sort in script.sorts
        sort = _quote_symbol(variable_declaration.sort) if known else _sort_text(variable_declaration.sort, name)
        edits.append(Edit(place, place, f"(declare-const {_quote_symbol(name)} {sort})"))
    return edits


def _new_sort(script: Script, declared: VariableDeclaration, new_sorts: dict[str, tuple[Any, ...]]) -> list[Edit]:
    """Declares the enumeration that a variable's `enum:` defines, unless its sort exists."""
    name, values = declared.sort, declared.enum
    assert name is not None
    if values is None or name in script.sorts or name in _BUILT_IN or name.startswith("("):
        return []
    if name in new_sorts:
        if new_sorts[name] != tuple(values):
            raise SmtError(f"sort '{name}' is declared with different values; expected the same values everywhere")
        return []
    new_sorts[name] = tuple(values)
    constructors = " ".join(f"({_constructor(value, script)})" for value in _distinct(values))
    place = script.logic_end
    return [Edit(place, place, f"(declare-datatypes (({_quote_symbol(name)} 0)) (({constructors})))")]


def _distinct(values: Iterable[Any]) -> list[Any]:
    distinct_values = list(values)
    if len({repr(value) for value in distinct_values}) < len(distinct_values) or not distinct_values:
        raise SmtError("'enum' is empty or has duplicate values; expected distinct values")
    return distinct_values


def _constructor(value: Any, script: Script) -> str:
    if not isinstance(value, str):
        raise SmtError(f"{value!r} is not a string; expected strings as the values of an enumeration")
    if value in script.symbols:
        raise SmtError(f"{value!r} is already a name in the SMT-LIB text; choose another name")
    return _quote_symbol(value)


def _sort_text(sort: str, name: str) -> str:
    reader = SExprReader(sort)
    if len(reader.forms) + len(reader.stray) != 1 or reader.comments:
        expected = "expected 'Bool', 'Int', 'Real', 'String' or a sort of the SMT-LIB text"
        raise SmtError(f"{name!r} has the sort {sort!r}; {expected}")
    return sort


def _quote_symbol(name: str) -> str:
    """Quotes a symbol if necessary."""
    if "|" in name or "\\" in name or "\0" in name:
        raise SmtError(f"{name!r} is not an SMT-LIB name; expected one without '|', '\\' and NUL")
    return name if _SYMBOL.fullmatch(name) else f"|{name}|"
