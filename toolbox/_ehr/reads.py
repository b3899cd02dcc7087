"""The reads of a program, and its containers and strings."""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from .strings import Datum, group, is_marked, tidy, unrolled
from .values import (
    BUDGET,
    DATA,
    LONGEST,
    MANY,
    MURKY,
    NONE,
    OPEN,
    PLAIN,
    SOME,
    UNKNOWN,
    VAGUE,
    WIDEST,
    Args,
    Box,
    Env,
    Frame,
    Function,
    Table,
    ToolName,
    Value,
)
from .vocabulary import (
    ACCESSORS,
    BOOLEAN,
    BUILTINS,
    PURE,
)

LOOSE = frozenset(["item", "record", "tuple"])  # rows that are not series
SPEC = r"[<>^]?[-+ ]?0?\d{0,3}[,_]?(?:\.\d{1,3})?[sdeEfFgGn%]?|(?:%[a-zA-Z]|[-/: ])+"
FIELD = re.compile(rf"\{{\w*(?:\[\w+\])*(?:![rs])?(?::(?:{SPEC}))?\}}")
PERCENT = re.compile(r"%(\(\w+\))?[-+ #0]?\d{0,3}(?:\.\d{1,3})?([sdifeEgG%])")


class Reads:
    """The recorded reads and the state of the interpretation."""

    if TYPE_CHECKING:  # what the classes built on this one add, and it calls

        def value(self, node: Any) -> Value: ...
        def test(self, node: ast.expr) -> Value: ...
        def unpacked(self, value: Value) -> Value: ...
        def columns_of(self, table: Table) -> frozenset[str] | None: ...
        def repeat(self, func: Function, plain: list[Value] | None) -> Value: ...
        def combine(self, op: ast.operator, left: Value, right: Value) -> Value: ...
        def v_lambda(self, node: ast.Lambda | ast.FunctionDef) -> Value: ...
        def method(self, atom: Any, name: str, args: Args) -> Value: ...
        def call(self, atom: Any, args: Args) -> Value: ...
        def table_method(self, table: Table, name: str, args: Args) -> Value: ...
        def pick(self, table: Table, index: Value, *, pair: bool) -> Value: ...
        def member(self, atom: Any, name: str) -> Value: ...

    def __init__(self, schema: dict[str, list[str]]) -> None:
        self.schema = schema
        self.found: dict[str, set[str]] = {}
        self.stored: dict[Any, Env] = {}  # the content of containers, by site and key; None for an unknown key
        self.frame = Frame(None, {**BUILTINS})
        self.path: tuple[Any, ...] = ()  # the enclosing calls and loop turns
        self.active: list[Any] = []
        self.node: Any = ast.Pass(lineno=1)
        self.steps, self.changes, self.jumped, self.unbound = 0, 0, False, SOME

    def fail(self, why: str) -> NoReturn:
        raise ValueError(f"line {self.node.lineno}: {why}")

    def charge(self, work: int = 1) -> None:
        self.steps += work
        if self.steps > BUDGET:
            self.fail("the code is too complex to follow")

    # What is read.

    def record(self, database: str, *columns: str) -> None:
        self.found.setdefault(database, set()).update(columns)

    def database(self, name: str) -> str:
        name = name.strip().lower()
        return next((known for known in self.schema if known.lower() == name), name)

    def read(self, table: Table, column: str) -> None:
        if is_marked(column):
            self.fail("the column is only known at run time")
        parts = [part for part in table.parts if column not in part.made]
        able = [part for part in parts if part.columns is None or column in part.columns] or parts
        sure = [part for part in able if column in self.schema.get(part.name, ())]
        for part in sure if len(sure) == 1 else able:
            self.record(part.name, column)

    def escape(self, value: Value) -> None:
        """Record that the whole content of a value may be output."""
        for table in self.leaves(value):
            for part in table.parts if isinstance(table, Table) else ():
                if part.columns is None:
                    self.record(part.name, "*")
                for column in part.columns or ():
                    self.read(table, column)

    def leaves(self, *values: Value) -> set[Any]:
        """Collect the content of values at any depth, including keys."""
        atoms, out, seen = [atom for value in values for atom in value], set(), set()
        while atoms:
            self.charge()
            atom = atoms.pop()
            if not isinstance(atom, Box):
                out.add(atom)
            elif atom not in seen:
                seen.add(atom)
                atoms += [*self.every(atom), *(atom.keys or ()), *self.stored.get(atom.site, ())]
        return out

    def opaque(self, *values: Value) -> Value:
        """Pass values to an unknown function. The result is data, or `MURKY` if strings were passed."""
        murky, atoms = False, self.leaves(*values)
        while atoms:
            atom = atoms.pop()
            self.escape(frozenset({atom}))
            if isinstance(atom, Function):
                atoms |= self.leaves(self.repeat(atom, None))
            if isinstance(atom, ToolName):
                self.guard(atom)
            murky |= isinstance(atom, ToolName) or (isinstance(atom, str) and atom != DATA)
            murky |= isinstance(atom, Table) and atom.shape == "item"  # it may be the name of a column
        return UNKNOWN if murky else SOME

    def guard(self, tool: ToolName) -> None:
        if tool.name in ACCESSORS:
            self.fail(f"{tool.name} is passed to a function that cannot be followed")

    # Containers and strings.

    def here(self, tag: Any = None) -> Any:
        """The allocation site of a container: the place in the code with the enclosing calls and loop turns."""
        return (self.path, self.node, tag)

    def put(self, box: Box, keys: Value, value: Value) -> None:
        self.compared(keys)
        stored = self.stored.setdefault(box.site, {})
        for key in keys:
            known = stored.get(key, NONE)
            self.charge(1 + len(known))
            self.changes += not value <= known or key not in stored
            stored[key] = known | value

    def every(self, box: Box) -> Value:
        self.charge(len(box.items) // 8)
        return NONE.union(*box.items, *self.stored.get(box.site, {}).values())

    def get(self, box: Box, index: Value) -> Value:
        self.compared(index)
        stored, out = self.stored.get(box.site, {}), NONE
        known: dict[Any, Value] = dict(zip(box.keys or range(len(box.items)), box.items, strict=True))
        for key in index:
            place = key + len(known) if isinstance(key, int) and key < 0 and box.keys is None else key
            if key in VAGUE or not box.sure or (box.keys is None and (stored or place not in known)):
                out |= self.every(box)
            else:
                out = out.union(known.get(place, NONE), *(stored.get(one, NONE) for one in (key, *VAGUE)))
        return out

    def turns(self, value: Value) -> list[Value]:
        """Return the elements of a loop in order; empty if unknown."""
        box = next(iter(value)) if len(value) == 1 else None
        if not isinstance(box, Box) or not box.sure or box.site in self.stored:
            return []
        self.charge(len(box.items) // 8)
        return [*box.items] if box.keys is None else [frozenset({key}) for key in box.keys]

    def elements(self, value: Value) -> Value:
        out = NONE
        for atom in value:
            if isinstance(atom, Box):
                out |= self.every(atom) if atom.keys is None else {*atom.keys, *self.stored.get(atom.site, ())}
            elif isinstance(atom, Table):
                out |= self.rows(atom)
            else:
                out |= PLAIN if atom is None or isinstance(atom, int) else SOME if atom == DATA else UNKNOWN
        return out or SOME

    def rows(self, table: Table) -> Value:
        frame, row = (frozenset({table._replace(shape=shape)}) for shape in ("frame", "row"))
        if table.shape in ("groups", "iterrows"):
            return frozenset({Box(table, (SOME, frame if table.shape == "groups" else row))})
        if table.shape == "windows":
            return frame
        if table.shape in ("frame", "itertuples"):
            return frozenset({table._replace(shape="item" if table.shape == "frame" else "tuple")})
        if table.shape == "record":  # the names of columns
            return UNKNOWN
        return self.opaque(frozenset({table}))

    def contents(self, value: Value) -> Value:
        """Return the content of containers, without the keys of dicts."""
        self.escape(frozenset(atom for atom in value if isinstance(atom, Table) and atom.shape in LOOSE))
        dicts = frozenset(atom for atom in value if isinstance(atom, Box) and atom.keys is not None)
        rest = self.elements(value - dicts) if value - dicts else NONE
        return rest.union(*(self.every(box) for box in dicts))

    def compared(self, *values: Value) -> None:
        """Record that values are compared or looked up: rows and tuples by all their cells."""
        atoms = frozenset(itertools.chain(*values))
        if any(isinstance(atom, (Table, Box)) for atom in atoms):
            self.escape(atoms)

    def visit(self, values: Value, each: Value) -> None:
        """Call the functions among some values with elements, as `sorted` does with its key."""
        for func in values:
            if isinstance(func, Function):
                self.escape(self.repeat(func, [each]))
            if isinstance(func, ToolName):
                self.guard(func)
                self.call(func, Args([each], {}))

    def moved(self, func: Callable[..., Iterable[Any]], *values: Value, order: bool = True) -> Value:
        """Call a function that only rearranges elements."""
        turns = [self.turns(value) for value in values]
        sure = order and all(turns) and sum(map(len, turns)) <= MANY
        made = [*func(*(turns if sure else ([self.elements(value)] for value in values)))]
        self.charge(len(made))
        items = tuple(self.wrapped(place, item, sure=sure) for place, item in enumerate(made))
        return frozenset({Box(self.here(), items if sure else (NONE.union(*items),), sure=sure)})

    def wrapped(self, place: int, item: Any, *, sure: bool) -> Value:
        if isinstance(item, tuple):
            return frozenset({Box(self.here(place), tuple(self.wrapped(place, one, sure=sure) for one in item))})
        return item if isinstance(item, frozenset) else frozenset({item if sure else None})

    def choices(self, value: Value) -> list[Any]:
        """Return the possible values for formatting, containers with all possible content."""
        out: list[Any] = []
        for atom in value:
            if isinstance(atom, (str, int)) or atom is None:
                out.append(DATA if atom is None else atom)
            elif isinstance(atom, Box) and atom.sure and atom.site not in self.stored:
                combos = itertools.islice(itertools.product(*map(self.choices, atom.items)), WIDEST + 1)
                out += [[*combo] if atom.keys is None else dict(zip(atom.keys, combo, strict=True)) for combo in combos]
            else:
                out += self.opaque(frozenset({atom}))
        return out if len(out) <= WIDEST else [MURKY]

    def text(self, func: Callable[..., Any], *values: Value) -> Value:
        """Call a function that returns strings with all possible arguments."""
        out = NONE
        for combo in itertools.islice(itertools.product(*map(self.choices, values)), WIDEST + 1):
            made: Any = MURKY
            shown = str(combo)
            self.charge(1 + len(shown) // 64)
            if MURKY not in shown and len(shown) < LONGEST:
                with contextlib.suppress(TypeError, ValueError, LookupError):
                    made = func(*combo)
            many = isinstance(made, (list, tuple))
            out |= {Box(self.here(), tuple(frozenset({part}) for part in made)) if many else tidy(made)}
        return out if len(out) <= WIDEST else UNKNOWN

    def join(self, text: str, value: Value) -> Value:
        texts = [*self.choices(self.elements(value))]
        if self.turns(value):
            return self.text(text.join, value)
        if all(one == DATA for one in texts):
            return frozenset({DATA + text + DATA})
        if all(isinstance(one, str) and one != MURKY for one in texts):
            further = group(text + one for one in texts)
            return frozenset({"", *(tidy(one + further) for one in texts)})
        return UNKNOWN

    def formatted(self, text: str, args: Args) -> Value:
        rest = FIELD.sub("", text.replace("{{", "").replace("}}", ""))
        if "{" in rest or "}" in rest or "**" in args.named or OPEN in text:
            return self.opaque(args.all()) | UNKNOWN

        def fill(*values: Any) -> str:
            values_in = [Datum(value) if isinstance(value, str) and is_marked(value) else value for value in values]
            return text.format(*values_in[len(args.named) :], **dict(zip(args.named, values_in, strict=False)))

        return self.text(fill, *args.named.values(), *args.plain)

    def percent(self, text: str, right: Value) -> Value:
        if "%" in PERCENT.sub("", text) or OPEN in text:
            return self.opaque(right) | UNKNOWN

        precise = re.search(r"\.\d", text) is not None

        def fill(value: Any) -> str:
            parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
            if precise and any(isinstance(one, str) and one != DATA and is_marked(one) for one in parts):
                return MURKY  # it may be cut
            values = tuple(value) if isinstance(value, list) else value
            with contextlib.suppress(TypeError):
                return text % values
            # Data may be a number.
            return PERCENT.sub(lambda match: "%%" if match[2] == "%" else f"%{match[1] or ''}s", text) % values

        return self.text(fill, right)

    def text_method(self, text: str, name: str, args: Args) -> Value:
        if name == "format":
            return self.formatted(text, args)
        if name == "join":
            return self.join(text, args.all())
        marked = is_marked(text)
        if name not in PURE or args.named or (marked and not self.keeps_marks(text, name, args.plain)):
            out = self.opaque(args.all())
            return PLAIN if name in BOOLEAN or name in ("count", "find", "index") or name[:2] == "is" else out | UNKNOWN
        texts = [*unrolled(text)] if marked and "strip" in name else [text]
        return NONE.union(*(self.text(getattr(one, name), *args.plain) for one in texts))

    def keeps_marks(self, text: str, name: str, plain: list[Value]) -> bool:
        """Tell whether a method is exact on a partially unknown string.

        Stripped or replaced text must not contain letters: the data may be empty, and the letters of a name come next.
        """
        texts = [str(atom) for atom in itertools.chain(*plain)]
        if name == "replace":
            return OPEN not in text and len(plain) == 2 and not re.search(r"[\w|<>=]|^$", "".join(texts))
        if "strip" in name or name.startswith("remove"):
            return not any(is_marked(text) or re.search(r"\w", text) for text in texts)
        return name in ("lower", "upper", "casefold", "swapcase")
