"""The code of a screen: reads values of a proposed call once, for the conditions of many rules.

A screen is a generated Python function. No text of the policy gets into its code: names are numbered, and the names of
arguments and facts, literals and regular expressions are constants of the function.

Each value has a number `n`, and these variables in the code:

    v<n>  the value; None if missing
    t<n>  its type; None for a float that is not finite
    n<n>  whether it is a number
    f<n>  a string without case and surrounding space
    r<n>  the numbers of the regular expressions that match it; empty if it is no string

The code only looks at values of the types that JSON has, and at no subclasses: for a call with others, the screen
decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from guardagent.policy.evaluation.patterns import folded_name
from guardagent.policy.language.values import exact

MAX_MATCHED = 1000  # characters of a string that regular expressions are matched with
EXACT = 2**53  # integers up to this are exact as floats
SCALARS = frozenset({str, int, float, bool, type(None)})
MAPPINGS = frozenset({dict, MappingProxyType})
LISTS = frozenset({list, tuple})
SIZED = MAPPINGS | LISTS | {str}
_BUILT_IN: dict[str, Any] = {
    "__builtins__": {},
    "type": type,
    "len": len,
    "str": str,
    "int": int,
    "float": float,
    "fold": folded_name,
    "scalars": SCALARS,
    "json_types": SCALARS | SIZED,
    "mappings": MAPPINGS,
    "sized": SIZED,
    "comparable": frozenset({str, int, bool, float}),
    "ordered": frozenset({str, int, float}),
    "indexed": frozenset({str, int}),
    "empty": frozenset(),
}


class ScreenCode:
    """The reads at the start of a screen, and its constants."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = dict(_BUILT_IN)
        self._reads: dict[Any, int] = {}
        self._derived: set[str] = set()
        self._regexes: dict[int, dict[str, int]] = {}

    def constant(self, value: Any) -> str:
        """Adds a constant and returns its name."""
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def argument(self, name: str, types: str = "scalars") -> int:
        """The number of an argument."""
        return self._read(("argument", name), lambda: f"get({self.constant(name)})", types)

    def fact(self, path: tuple[str, ...], types: str = "scalars") -> int:
        """The number of a fact of the host."""
        if len(path) > 1:
            return self.field(self.fact(path[:-1], "json_types"), path[-1], types)
        return self._read(("fact", *path), lambda: f"facts.get({self.constant(path[0])})", types)

    def field(self, whole: int, name: str, types: str = "scalars") -> int:
        """The number of a field of a mapping; None for other values."""
        text = f"v{whole}.get({{}}) if t{whole} in mappings else None"
        return self._read((whole, name), lambda: text.format(self.constant(name)), types)

    def _read(self, source: Any, text: Callable[[], str], types: str) -> int:
        key = source, types
        if key not in self._reads:
            at = self._reads[key] = len(self._reads)
            self.lines += [
                f"v{at} = {text()}",
                f"t{at} = type(v{at})",
                f"if t{at} not in {types}: return monitors",
                f"if t{at} is float and v{at} - v{at} != 0: t{at} = None",
            ]
        return self._reads[key]

    def _derive(self, name: str, text: str) -> str:
        if name not in self._derived:
            self._derived.add(name)
            self.lines.append(f"{name} = {text}")
        return name

    def number(self, at: int) -> str:
        return self._derive(f"n{at}", f"t{at} is int or t{at} is float")

    def folded(self, at: int) -> str:
        return self._derive(f"f{at}", f"fold(v{at}) if t{at} is str else None")

    def matched(self, at: int, regex: str) -> tuple[str, int]:
        """(the numbers of the regular expressions that match a value, the number of this one)."""
        regexes = self._regexes.setdefault(at, {})
        short = f"t{at} is str and len(v{at}) <= {MAX_MATCHED}"
        return self._derive(f"r{at}", f"m{at}(v{at}) if {short} else empty"), regexes.setdefault(regex, len(regexes))

    def function(self, checks: list[str], **names: Any) -> Callable[..., Any]:
        """Compiles the reads and some checks to a function of (context, call, memory)."""
        for at, regexes in self._regexes.items():
            self.constants[f"m{at}"] = matcher(list(regexes))
        first = ["args = call.args", "if type(args) not in mappings: return monitors", "get = args.get"]
        first += ["facts = context.facts", "indexes = context.indexes"]
        body = [*first, *self.lines, "left = []", *checks, "return left"]
        source = "\n    ".join(["def screen(context, call, memory):", *body])
        space = {**self.constants, **names}
        exec(compile(source, "<screen>", "exec"), space)  # noqa: S102 - generated code, without any text of a policy
        found: Callable[..., Any] = space["screen"]
        return found


def matcher(regexes: list[str]) -> Callable[[str], frozenset[int]]:
    """Compiles a function that returns the numbers of the expressions that match a whole string, in one pass.

    The set of expressions reports no match at all when it runs out of memory, so it ends with one that always matches.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    expressions = re2.Set.FullMatchSet(options)
    for regex in [*regexes, "(?s).*"]:
        expressions.Add(regex)
    expressions.Compile()
    always, match = len(regexes), expressions.Match

    def matched(text: str) -> frozenset[int]:
        found = frozenset(match(text))
        if always not in found:
            raise RuntimeError("the regular expressions ran out of memory")
        return found

    matched("")
    return matched


def text_in(item: Any, whole: Any) -> bool | None:
    """Whether a string is in a string or a list of strings; None if the rule has to decide."""
    if type(item) is not str:
        return None
    if type(whole) is str:
        return item in whole
    if type(whole) not in LISTS:
        return None
    return item in whole if all(type(one) is str for one in whole) else None


def plain_number(value: Any) -> int | float | None:
    """A literal number that compares with integers and floats as the exact number does; None if there is none.

    A float stands for the decimal that it prints as. Rounding keeps the order of decimals, so a float compares with
    the rounded literal as its decimal does with the literal, if the literal is what the rounded one prints as.
    """
    if type(value) not in (int, Fraction) or abs(value) > EXACT:
        return None
    rounded = value if type(value) is int else float(value)
    return rounded if exact(Decimal(repr(rounded))) == value else None
