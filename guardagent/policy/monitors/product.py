"""Runs several propositional rules over a trace as one product automaton.

The full product can be huge, but a trace visits little of it. Letters and transitions are built when an event first
needs them, and cached. After that an event costs two look-ups for any number of rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from guardagent.policy.monitors.alphabet import Alphabet
from guardagent.policy.monitors.automaton import Automaton, Standing
from guardagent.types import Event

Compiled = tuple[Alphabet, Automaton]
Parts = tuple[int, ...]  # a number for each rule
Key = tuple[str, str | None, str | None, frozenset[str], bool]  # the parts of an event that a propositional rule reads


class ProductLetter:
    """The letters of an event, one for each rule. Equal letters are one object, for fast look-ups."""

    __slots__ = ("parts",)

    def __init__(self, parts: Parts) -> None:
        self.parts = parts


class ProductState(dict[ProductLetter, tuple["ProductState", Parts]]):
    """A product state; maps each letter to the next state and the rules that the step violates.

    Attributes:
        parts: the state of each rule.
        violated: the rules that are violated in this state.
    """

    __slots__ = ("_product", "parts", "violated")

    def __init__(self, product: Product, parts: Parts, violated: Parts) -> None:
        super().__init__()
        self._product, self.parts, self.violated = product, parts, violated

    def __missing__(self, letter: ProductLetter) -> tuple[ProductState, Parts]:
        following = self._product.after(self.parts, letter)
        violated = tuple(rule for rule in following.violated if rule not in self.violated)
        self[letter] = following, violated
        return following, violated


class Letters(dict[Key, ProductLetter]):
    """Maps each kind of event to its letter: `letters[event.tool, event.action, event.decision, event.tags, ok]`."""

    __slots__ = ("_product",)

    def __init__(self, product: Product) -> None:
        super().__init__()
        self._product = product

    def __missing__(self, key: Key) -> ProductLetter:
        letter = self[key] = self._product.letter(key)
        return letter


class Product:
    """The product of several rules. Its caches only hold values that can be recomputed, so threads can share it.

    Args:
        rules: the alphabet and automaton of each rule.
        keep: the number of cached letters and transitions after which the cache is cleared.

    Attributes:
        rules: the rules; results refer to them by index.
        letters: the letter of each kind of event.
        start: the initial state.
    """

    def __init__(self, rules: Sequence[Compiled], keep: int = 50_000) -> None:
        self.rules = tuple(rules)
        self._keep = keep
        self.letters = Letters(self)
        self.start = ProductState(self, (0,) * len(self.rules), ())
        self._states: dict[Parts, ProductState] = {}
        self._letters: dict[Parts, ProductLetter] = {}
        self._kept = 0

    def letter(self, key: Key) -> ProductLetter:
        self._keep_one_more()
        tool, action, decision, tags, ok = key
        event = Event(tool, action=action, decision=decision, tags=tags)
        parts = tuple(alphabet.index(event, ok=ok) for alphabet, _ in self.rules)
        return self._letters.setdefault(parts, ProductLetter(parts))

    def after(self, parts: Parts, letter: ProductLetter) -> ProductState:
        self._keep_one_more()
        steps = zip(self.rules, parts, letter.parts, strict=True)
        following = tuple(automaton.table[state][part] for (_, automaton), state, part in steps)
        violated = tuple(rule for rule, state in enumerate(following) if self.rules[rule][1].violated[state])
        return self._states.setdefault(following, ProductState(self, following, violated))

    def _keep_one_more(self) -> None:
        """Clears the cache when it is full. Names and tags come from callers and are unbounded."""
        self._kept += 1
        if self._kept > self._keep:
            self._kept = 0
            for state in [self.start, *self._states.values()]:
                state.clear()
            self._states.clear()
            self._letters.clear()
            self.letters.clear()


class ProductMonitor:
    """Monitors one trace event by event.

    Args:
        rules: the rules, or a product that several monitors share.
    """

    __slots__ = ("_letters", "_rules", "_state")

    def __init__(self, rules: Product | Sequence[Compiled]) -> None:
        product = rules if isinstance(rules, Product) else Product(rules)
        self._rules, self._letters, self._state = product.rules, product.letters, product.start

    def step(self, event: Event, *, ok: bool) -> Parts:
        """Processes an event; returns the indexes of the rules that it violates for good, each rule once."""
        letter = self._letters[event.tool, event.action, event.decision, event.tags, ok]
        self._state, violated = self._state[letter]
        return violated

    def run(self, events: Iterable[Event]) -> list[tuple[int, int]]:
        """Processes events; returns (event index, rule index) for each violation. Success is status "ok"."""
        state, letters, found = self._state, self._letters, []
        for at, event in enumerate(events):
            letter = letters[event.tool, event.action, event.decision, event.tags, event.status == "ok"]
            state, violated = state[letter]
            if violated:
                found += [(at, rule) for rule in violated]
        self._state = state
        return found

    @property
    def standings(self) -> tuple[Standing, ...]:
        """The current standing of each rule."""
        states = zip(self._rules, self._state.parts, strict=True)
        return tuple(automaton.standing(state) for (_, automaton), state in states)
