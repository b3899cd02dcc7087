"""The calls, variables and items that a condition can refer to, and their names in a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from guardagent.policy.words.phrases import code, ordinal


@dataclass(frozen=True, slots=True)
class SentenceScope:
    """The names in scope.

    Attributes:
        calls: the names of the calls, the proposed one first.
        labels: the call of a label, by its place in `calls`.
        variables: the call of a variable, and the argument that binds it.
        items: the names of the items of lists.
        others: the text of any other name.
        named: whether the innermost call has its name too, instead of "it".
    """

    calls: tuple[str, ...] = ()
    labels: dict[str, int] = field(default_factory=dict)
    variables: dict[str, tuple[int, str]] = field(default_factory=dict)
    items: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    named: bool = False

    def with_call(self, name: str, label: str | None) -> SentenceScope:
        """This scope with another call; a label hides an outer one."""
        labels = {**self.labels, **({label: len(self.calls)} if label else {})}
        return replace(self, calls=(*self.calls, name), labels=labels, named=False)

    @property
    def by_name(self) -> SentenceScope:
        """This scope, with the innermost call by its name."""
        return replace(self, named=True)

    def with_variable(self, name: str, argument: str) -> SentenceScope:
        """This scope with a variable that an argument of the last call binds."""
        return replace(self, variables={**self.variables, name: (len(self.calls) - 1, argument)})

    def with_item(self, name: str) -> SentenceScope:
        return replace(self, items={**self.items, name: f"the {ordinal(len(self.items) + 1)}item"})

    def next_call(self) -> str:
        """The name of a call of the history inside of this scope."""
        inner = sum(1 for call in self.calls if call.startswith("that "))
        return f"that {ordinal(inner + 1)}call"

    def is_known(self, variable: str) -> bool:
        return variable in self.variables or variable in self.items or variable in self.others

    def subject(self, label: str) -> str:
        """A call as the subject of a clause."""
        call = self.labels[label]
        return "it" if self._is_innermost(call) else self.calls[call]

    def possessive(self, call: int) -> str:
        return "its" if self._is_innermost(call) else f"{self.calls[call]}'s"

    def _is_innermost(self, call: int) -> bool:
        return not self.named and call == len(self.calls) - 1

    def variable(self, name: str) -> str:
        """The value of a variable."""
        if name in self.items:
            return self.items[name]
        if name in self.variables:
            call, argument = self.variables[name]
            return f"{self.possessive(call)} {code(argument)}"
        return self.others.get(name, code(name))

    def is_same_argument(self, variable: str, argument: str) -> bool:
        """Whether a variable is the argument with this name of the first call."""
        return self.variables.get(variable) == (0, argument)
