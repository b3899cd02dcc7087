"""Small random graphs and rules with few names, so that they often share some."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from guardagent.workflow.model.graph import EDGE_KINDS, NODE_KINDS, Edge, Graph, Node

TOOLS = ("a", "b", "c")
ATOMS = ("tool:a", "tool:b", "tool:c", "@two")
SETS = {"two": frozenset({"a", "b"})}
FORMS = (
    "G !{}", "{} -> F {}", "{} -> F[<=2] {}", "{} -> F[<=1] {}", "{} -> F {} -> F {}", "{} U {}", "G({} -> O {})",
    "F {}", "G({} -> X {})", "G({} -> Y {})", "G({} -> (!{} S {}))", "{} W {}", "{} R {}", "G({} -> H !{})",
)  # fmt: skip
NESTED = (
    "G ({})", "F ({})", "X ({})", "O ({})", "H ({})", "Y ({})", "!({})", "F[<=2] ({})", "!(X true) || ({})",
    "({}) U ({})", "({}) W ({})", "({}) R ({})", "({}) S ({})", "({}) -> ({})", "({}) && ({})", "({}) || ({})",
)  # fmt: skip
DATA = (
    "forall({}, ?)", "exists({}, ?)", "seq({}, {}, {})", "before({}, ?, {}, ?)", "after({}, ?, {}, ?)",
    "before({}, ?, f:{}, output(f) == 1)", "after({}, ?, f:{}, output(f) == 1)",
)  # fmt: skip
PLAIN_CALLS = ("a()", "b()", "c()", "a|c()", "@two()")
CALLS = (*PLAIN_CALLS, "a(x=1)", "b(x=v)", "c(x=.*)", "a|b(x=v, y=v)", "@two(y=/[ab]+/)", "c(x=w, y=v)")
PLAIN_CONDITIONS = ("true", "true", "true", "false")
CONDITIONS = (*PLAIN_CONDITIONS, "fact(sure) == true")
LABELS = ("pii", "action:write", "decision:yes")


class Maker:
    """Generates random cases; the same seed gives the same cases."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - a fixed seed

    def graph(self, *, forks: bool = False) -> Graph:
        """Returns a graph of an entry, one or two exits and up to four other nodes, with random edges.

        With `forks`, some edges are parallel.
        """
        kinds = EDGE_KINDS if forks else tuple(kind for kind in EDGE_KINDS if kind != "parallel")
        chance = self._chance
        exits = [f"end{at}" for at in range(chance.choice([1, 1, 1, 2]))]
        inner = [self._node(f"n{at}") for at in range(chance.randrange(1, 6 - len(exits)))]
        nodes = [Node("start", "entry"), *inner, *(Node(name, "exit") for name in exits)]
        names = [node.id for node in nodes]
        count = chance.randrange(len(nodes) - 1, 2 * len(nodes))
        ends = [(chance.choice(names[:-1]), chance.choice(names[1:])) for _ in range(count)]
        edges = [Edge(*edge, chance.choice(kinds)) for edge in dict.fromkeys([("start", names[1]), *ends])]
        return Graph("any", "test", "start", tuple(exits), tuple(nodes), tuple(edges))

    def _node(self, name: str) -> Node:
        chance = self._chance
        tools = tuple(chance.sample(TOOLS, chance.choice([0, 1, 1, 1, 2, 2, 3])))
        kind = "tool" if tools and chance.random() < 0.8 else chance.choice(NODE_KINDS[3:])
        return Node(name, kind, "", tools, tools[:1], {"model_chooses": chance.random() < 0.4})

    def formula(self) -> str:
        """Returns a propositional formula."""
        return self._form() if self._chance.random() < 0.6 else self._nested()

    def rule(self) -> str:
        """Returns a propositional rule."""
        return self._combined(self._form, self._form, self._nested)

    def rule_over_data(self, *, plain: bool) -> str:
        """Returns a rule over data, or one in that form that does not depend on data."""
        return self._combined(self._data_of(plain=plain), self._data_of(plain=plain), self._form)

    def rule_with_labels(self) -> str:
        """Returns a rule with an action, a decision or a tag."""
        return self._combined(self._form, partial(self._nested, (*ATOMS, *LABELS)), partial(self._nested, LABELS))

    def arguments(self) -> dict[str, Any]:
        """Of a call."""
        chance = self._chance
        return {name: chance.choice([1, 2, "a", None]) for name in "xy" if chance.random() < 0.6}

    def some(self, values: Sequence[str]) -> list[str]:
        """Up to three, any of them several times."""
        return self._chance.choices(values, k=self._chance.randrange(4))

    def truth(self) -> bool:
        return self._chance.random() < 0.5

    def one_of(self, *values: Any) -> Any:
        return self._chance.choice(values)

    def _combined(self, *made: Callable[[], str]) -> str:
        first, second = self._chance.choice(made)(), self._chance.choice(made)()
        shapes = ["{}", "{}", "{}", "({}) AND ({})", "({}) OR ({})", "NOT ({})", "NOT (({}) AND ({}))"]
        return self._chance.choice(shapes).format(first, second)

    def _form(self) -> str:
        return self._filled(self._chance.choice(FORMS), self._atom)

    def _nested(self, atoms: Sequence[str] = ATOMS, depth: int = 3) -> str:
        if depth == 0 or self._chance.random() < 0.1:
            return self._chance.choice(atoms)
        return self._filled(self._chance.choice(NESTED), lambda: self._nested(atoms, depth - 1))

    def _atom(self) -> str:
        return self._chance.choice(ATOMS)

    def _data_of(self, *, plain: bool) -> Callable[[], str]:
        chance = self._chance
        calls, conditions = (PLAIN_CALLS, PLAIN_CONDITIONS) if plain else (CALLS, CONDITIONS)
        forms = DATA[:5] if plain else DATA

        def data() -> str:
            form = chance.choice(forms)
            return self._filled(
                self._filled(form, lambda: chance.choice(calls)), lambda: chance.choice(conditions), "?"
            )

        return data

    def _filled(self, form: str, made: Callable[[], str], gap: str = "{}") -> str:
        for _ in range(form.count(gap)):
            form = form.replace(gap, made(), 1)
        return form
