"""A value with a name, and a definition, mean the same as the text that they stand for, whatever names are around.

Random conditions are written twice: with `let`, definitions and few names, such as `a` and `a_2`, and written out with
a name of its own for each variable.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.load import load_policies

FEW = ("a", "a_2", "b", "b_2", "f")
SEEDS = 400
Both = tuple[str, str]
"""The same, with few names and written out."""
Scope = tuple[tuple[str, str, str], ...]
"""What is in scope: its kind (a variable, a value, a call), its name, and what stands for it when written out."""


class RandomRule:
    """A rule in both forms, with its definitions."""

    def __init__(self, seed: int) -> None:
        self._random, self._unique = random.Random(seed), count(1)  # noqa: S311 - no secret
        self.definitions: dict[str, str] = {}
        named, whole, scope, _ = self._pattern(())
        conditions = self._condition(scope, 4)
        self.named, self.whole = f"forall({named}, {conditions[0]})", f"forall({whole}, {conditions[1]})"

    def _bound(self, kind: str, scope: Scope, meaning: str = "") -> Scope:
        """The scope with one more name; as it is if all names are taken."""
        free = [name for name in FEW if name not in {known for _, known, _ in scope}]
        return (*scope, (kind, self._random.choice(free), meaning or f"u{next(self._unique)}")) if free else scope

    def _pattern(self, scope: Scope) -> tuple[str, str, Scope, str]:
        """A pattern in both forms, the scope of its condition, and what this has to say first when written out."""
        inner, labels, equations = scope, ("", ""), ""
        if self._random.random() < 0.5 and (inner := self._bound("call", scope)) != scope:
            labels = f"{inner[-1][1]}:", f"{inner[-1][2]}:"
        arguments = []
        for name in self._random.sample("xyz", 2):
            known = [each for each in scope if each[0] != "call"]
            if known and self._random.random() < 0.6:
                _, few, whole = self._random.choice(known)
                if "(" in whole:  # neither a variable nor a constant
                    equations, whole = f"{equations}u{(at := next(self._unique))} == {whole} && ", f"u{at}"
                arguments.append((name, few, whole))
            elif (more := self._bound("variable", inner)) != inner:
                inner = more
                arguments.append((name, *inner[-1][1:]))
        few, whole = (", ".join(f"{each[0]}={each[at]}" for each in arguments) for at in (1, 2))
        return f"{labels[0]}get({few})", f"{labels[1]}get({whole})", inner, equations

    def _term(self, scope: Scope, depth: int) -> Both:
        values = [each[1:] for each in scope if each[0] != "call"]
        calls = [(f"args({each[1]}).x", f"args({each[2]}).x") for each in scope if each[0] == "call"]
        choice = self._random.random()
        if (values or calls) and choice < 0.7:
            return self._random.choice([*values, *calls])
        if choice < 0.9 and depth:
            named, whole, inner, equations = self._pattern(scope)
            conditions = self._condition(inner, depth - 1)
            return f"count({named}, {conditions[0]})", f"count({whole}, {equations}({conditions[1]}))"
        return (self._random.choice("12"),) * 2

    def _condition(self, scope: Scope, depth: int) -> Both:
        first, second = self._term(scope, min(depth, 1)), self._term(scope, 0)
        kinds = (self._joined, self._some, self._every, self._let, self._definition)
        if depth == 0:
            return f"{first[0]} == {second[0]}", f"{first[1]} == {second[1]}"
        return self._random.choice(kinds)(scope, depth - 1, first)

    def _joined(self, scope: Scope, depth: int, _: Both) -> Both:
        first, second = self._condition(scope, depth), self._condition(scope, depth)
        return f"(({first[0]}) && ({second[0]}))", f"(({first[1]}) && ({second[1]}))"

    def _some(self, scope: Scope, depth: int, _: Both) -> Both:
        named, whole, inner, equations = self._pattern(scope)
        conditions = self._condition(inner, depth)
        return f"some({named}, {conditions[0]})", f"some({whole}, {equations}({conditions[1]}))"

    def _every(self, scope: Scope, depth: int, term: Both) -> Both:
        if (inner := self._bound("variable", scope)) == scope:
            return self._condition(scope, depth)
        conditions = self._condition(inner, depth)
        return tuple(f"all({inner[-1][at + 1]} in [{term[at]}], {conditions[at]})" for at in (0, 1))  # type: ignore[return-value]

    def _let(self, scope: Scope, depth: int, term: Both) -> Both:
        if (inner := self._bound("value", scope, term[1])) == scope:
            return self._condition(scope, depth)
        conditions = self._condition(inner, depth)
        return f"(let {inner[-1][1]} = {term[0]} in {conditions[0]})", f"({conditions[1]})"

    def _definition(self, scope: Scope, depth: int, term: Both) -> Both:
        name, inner = f"d{len(self.definitions)}", self._bound("value", (), term[1])
        self.definitions[f"{name}({inner[0][1]})"] = ""
        conditions = self._condition(inner, depth)
        self.definitions[f"{name}({inner[0][1]})"] = conditions[0]
        return f"{name}({term[0]})", f"({conditions[1]})"


def meaning(node: Any, names: Mapping[str, str], unique: count[int]) -> Any:
    """A node with a new name for each that it binds."""
    if isinstance(node, tuple):
        return tuple(meaning(part, names, unique) for part in node)
    if isinstance(node, ast.Variable | ast.Label):
        return type(node), names[node.name]
    if not hasattr(node, "__dataclass_fields__"):
        return node
    if isinstance(node, ast.And):
        return ast.And, *(meaning(part, names, unique) for part in conjuncts(node))
    parts = {name: getattr(node, name) for name in node.__dataclass_fields__ if name != "place"}
    inner = dict(names)
    if isinstance(node, ast.OverItems):
        items = meaning(parts.pop("items"), names, unique)
        inner[parts.pop("variable")] = f"v{next(unique)}"
        return ast.OverItems, items, *(meaning(part, inner, unique) for part in parts.values())
    if isinstance(node, (ast.Forall, *ast.OF_HISTORY)):
        pattern = parts.pop("pattern")
        bound = [pattern.label, *(each.value.name for each in pattern.arguments if hasattr(each.value, "name"))]
        inner |= {name: f"v{next(unique)}" for name in bound if name and name not in names}
        arguments = [(each.name, meaning(each.value, inner, unique)) for each in pattern.arguments]
        others = [meaning(part, inner, unique) for part in parts.values()]
        return type(node), pattern.tools, inner.get(pattern.label), tuple(arguments), *others
    return type(node), *(meaning(part, names, unique) for part in parts.values())


def conjuncts(node: Any) -> Iterator[Any]:
    for part in node.parts:
        yield from conjuncts(part) if isinstance(part, ast.And) else (part,)


def rule_of(text: str, definitions: Mapping[str, str]) -> Any:
    data = {"version": 1, "define": {**definitions, "unused": "true"}, "policies": [{"id": "r", "temporal": text}]}
    return meaning(load_policies(data=data).rules[0].rules[0], {}, count())


def test_names_mean_what_they_stand_for() -> None:
    for seed in range(SEEDS):
        made = RandomRule(seed)
        assert rule_of(made.named, made.definitions) == rule_of(made.whole, {}), (made.named, made.definitions)
