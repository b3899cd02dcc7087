"""Puts solver rules into words: the permit of each tool, the constraints, and where the values come from.

The words follow the SMT-LIB terms, not their comments. A term that has no words is shown as code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from guardagent.policy.file.rule_keys import GovernedTool, SolverSource, VariableSource
from guardagent.policy.language.declarations import Declarations
from guardagent.policy.language.term_parser import read_term
from guardagent.policy.solver.script import Script, parts_of, symbol
from guardagent.policy.solver.sources import ARGS
from guardagent.policy.words.terms import SentenceScope, TermWords, code, either, numbered, quoted, sentence

_INFIX = {
    "=": "is",
    "<": "is less than",
    "<=": "is at most",
    ">": "is more than",
    ">=": "is at least",
    "distinct": "is different from",
    "+": "plus",
    "-": "minus",
    "*": "times",
    "/": "divided by",
    "div": "divided without remainder by",
    "mod": "modulo",
    "str.prefixof": "begins",
    "str.suffixof": "ends",
    "str.++": "followed by",
}
_JOINED = {"and": "and", "or": "or", "xor": "or else"}
_PREFIX = {
    "to_real": "the real number",
    "to_int": "the whole number at most",
    "abs": "the absolute value of",
    "str.len": "the length of",
}
_SORTS = {"Bool": "true or false", "Int": "a whole number", "Real": "a number", "String": "a string"}


def solver_words(source: SolverSource, text: str, declared: Declarations) -> tuple[str, TermWords]:
    """The sentences for a solver rule, and the words with their counts.

    Args:
        source: the rule as written.
        text: its SMT-LIB text.
        declared: the names that its expressions can use.
    """
    words = _ConstraintWords(declared)
    script = Script(text)
    constraints = [words.whole(assertion.text) for assertion in script.assertions]
    others = [words.declaration(text[form.start : form.end]) for form in script.reader.forms]
    tools = [words.tool(tool, solver_tool, constrained=bool(constraints)) for tool, solver_tool in source.tools.items()]
    if constraints:
        tools.append(sentence(numbered("the constraints are", constraints)))
    tools += [sentence(declaration) for declaration in others if declaration]
    return " ".join(tools), words.terms


class _ConstraintWords:
    def __init__(self, declared: Declarations) -> None:
        self.terms, self._declared = TermWords(), declared

    def tool(self, name: str, tool: GovernedTool, *, constrained: bool) -> str:
        if tool.permit.text.strip() in ("true", "false") and not (constrained and tool.permit.text.strip() == "true"):
            permit = f"A call of {code(name)} is {'always' if 'true' in tool.permit.text else 'never'} allowed."
        else:
            fits = ", in a way that fits the constraints" if constrained else ""
            permit = f"A call of {code(name)} is allowed only if {self.whole(tool.permit.text)}{fits}."
        values = [
            f"{code(variable)} is {self._source(solver_variable)}"
            for variable, solver_variable in tool.variables.items()
        ]
        return " ".join([permit, *([sentence(f"for it, {'; '.join(values)}")] if values else [])])

    def _source(self, variable_source: VariableSource) -> str:
        values = "" if variable_source.enum is None else f", one of {', '.join(map(_literal, variable_source.enum))}"
        return f"{self._origin(variable_source)}{values}{self._if_unknown(variable_source)}"

    def _origin(self, variable_source: VariableSource) -> str:
        if variable_source.source is None:
            return "a value that is never stated"
        text = " ".join(variable_source.source.text.split())
        if text.startswith("confirmation"):
            return "whether the user has confirmed this call"
        if text.startswith("conversation"):
            return f"what the messages of {text.removeprefix('conversation').strip('( )')} say"
        names = SentenceScope(others={ARGS: "the call's arguments"})
        return self.terms.value(read_term(variable_source.source.text, {ARGS}, self._declared), names)

    def _if_unknown(self, variable_source: VariableSource) -> str:
        if variable_source.free:
            return " (if unknown, any value that permits the call)"
        return "" if variable_source.required else " (if unknown, the call must be permitted for every value)"

    # --- terms

    def term(self, text: str) -> str:
        """The words for an SMT-LIB term."""
        text = text.strip()
        if not text.startswith("("):
            return quoted(text[1:-1].replace('""', '"')) if text.startswith('"') else _atom(text)
        self.terms.atoms += 1
        head, *parts = _elements(text)
        if head == "!":
            return self.term(parts[0])
        phrase = _FORMS.get(head)
        if phrase is not None and (term := phrase(self, parts)):
            return term
        if head in _JOINED:
            return f" {_JOINED[head]} ".join(map(self.condition, parts))
        if head in _INFIX and len(parts) > 1:
            return f" {_INFIX[head]} ".join(map(self.inner, parts))
        if head in _PREFIX and len(parts) == 1:
            return f"{_PREFIX[head]} {self.inner(parts[0])}"
        if head.startswith("("):
            self.terms.coded += 1
            return code(text)
        return f"{_atom(head)} of ({', '.join(map(self.inner, parts))})"

    def inner(self, text: str) -> str:
        """A term in another, in parentheses if it has parts."""
        phrase = self.term(text)
        return f"({phrase})" if text.lstrip().startswith("(") and _elements(text)[0] != "!" else phrase

    def whole(self, text: str) -> str:
        """A term that is true or false, by itself."""
        return self.term(text) if text.lstrip().startswith("(") else self.condition(text)

    def condition(self, text: str) -> str:
        """A term that is true or false, in another."""
        text = text.strip()
        if text.startswith("(") or text in ("true", "false"):
            return self.inner(text)
        return f"{_atom(text)} is true"

    def declaration(self, text: str) -> str:
        """A definition in words; nothing for a declaration of a constant, a sort or an assertion."""
        head, *parts = _elements(text)
        if head in ("define-fun", "define-const"):
            names = [_elements(element)[0] for element in _elements(parts[1])] if head == "define-fun" else []
            parameters = f" of ({', '.join(map(_atom, names))})" if names else ""
            return f"{_atom(parts[0])}{parameters} means: {self.term(parts[-1])}"
        if head in ("declare-const", "declare-fun") and (head == "declare-const" or not _elements(parts[1])):
            return f"{_atom(parts[0])} is {_SORTS.get(parts[-1], f'of the sort {_atom(parts[-1])}')}"
        if head in ("assert", "set-info", "set-option", "set-logic"):
            return ""
        self.terms.atoms += 1
        if values := _enumeration(head, parts):
            return values
        self.terms.coded += 1
        return f"it is declared that {code(' '.join(text.split()))}"


Form = Callable[[_ConstraintWords, Sequence[str]], str]


def _quantified(kind: str) -> Form:
    def phrase(to: _ConstraintWords, parts: Sequence[str]) -> str:
        names = [_elements(element) for element in _elements(parts[0])]
        listed = ", ".join(f"{_atom(name)} ({_SORTS.get(sort, _atom(sort))})" for name, sort in names)
        return f"for {kind} {listed}: {to.condition(parts[1])}"

    return phrase


def _let(to: _ConstraintWords, parts: Sequence[str]) -> str:
    values = [_elements(element) for element in _elements(parts[0])]
    listed = ", ".join(f"{_atom(name)} for {to.inner(value)}" for name, value in values)
    return f"with {listed}: {to.inner(parts[1])}"


_FORMS: Mapping[str, Form] = {
    "not": lambda to, parts: f"it is not true that {to.condition(parts[0])}",
    "=>": lambda to, parts: f"if {' and then if '.join(map(to.condition, parts[:-1]))} then {to.condition(parts[-1])}",
    "ite": lambda to, parts: f"{to.inner(parts[1])} if {to.condition(parts[0])}, otherwise {to.inner(parts[2])}",
    "-": lambda to, parts: f"minus {to.inner(parts[0])}" if len(parts) == 1 else "",
    "forall": _quantified("every"),
    "exists": _quantified("some"),
    "let": _let,
}


def _elements(text: str) -> list[str]:
    text = text.strip()
    return [text[part.start : part.end] for part in parts_of(text)]


def _atom(text: str) -> str:
    if text in ("true", "false") or text[:1].isdigit():
        return text
    return code(symbol(text))


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else str(value)


def _enumeration(head: str, parts: Sequence[str]) -> str:
    """The words for a datatype whose constructors have no arguments; nothing for others."""
    if head == "declare-datatype":
        names, bodies = [parts[0]], [parts[1]]
    elif head == "declare-datatypes" and _elements(parts[0]):
        names = [_elements(element)[0] if element.startswith("(") else element for element in _elements(parts[0])]
        bodies = _elements(parts[1])
    else:
        return ""
    lines = []
    for name, body in zip(names, bodies, strict=False):
        constructors = [_elements(element) if element.startswith("(") else [element] for element in _elements(body)]
        if any(len(constructor) != 1 for constructor in constructors):
            return ""
        lines.append(f"a {_atom(name)} is {either([_atom(constructor[0]) for constructor in constructors])}")
    return " and ".join(lines)
