"""Expressions."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from typing import Any

from .reads import LOOSE
from .statements import Statements
from .strings import cut, is_marked
from .values import (
    DATA,
    LONGEST,
    MURKY,
    NONE,
    PLAIN,
    SOME,
    UNKNOWN,
    VAGUE,
    WIDEST,
    Args,
    Box,
    Frame,
    Function,
    Table,
    ToolName,
    Value,
    literal,
    starred,
)
from .vocabulary import (
    ACCESSORS,
    BANNED,
    COMPUTING,
    FORBIDDEN,
    METHODS,
)


class Expressions(Statements):
    """Evaluates expressions: one method per kind of syntax node; another kind is refused."""

    def value(self, node: Any) -> Value:
        self.charge()
        handler = getattr(self, "v_" + type(node).__name__.lower(), None)
        if handler is None:
            self.fail(f"{type(node).__name__} cannot be followed")
        value: Value = handler(node)
        if len(value) > WIDEST:
            self.fail("there are too many possible values to follow")
        return value

    def test(self, node: ast.expr) -> Value:
        """Evaluate a condition.

        Emptiness of a table depends only on the columns it was filtered by, which are already recorded. Emptiness of a
        dict or tuple, and existence or type of a row, depend on no cell. An apparent series may be a total.
        """
        value = self.value(node)
        self.truth(value)
        return value

    def truth(self, value: Value) -> None:
        self.escape(frozenset(atom for atom in value if isinstance(atom, Table) and atom.shape == "row"))

    def v_constant(self, node: ast.Constant) -> Value:
        value = node.value
        if isinstance(value, str):
            return frozenset({value if not is_marked(value) and len(value) <= LONGEST else MURKY})
        return frozenset({value}) if type(value) is int else UNKNOWN if isinstance(value, bytes) else PLAIN

    def v_name(self, node: ast.Name) -> Value:
        value = self.lookup(node.id)
        banned = any(isinstance(atom, ToolName) and atom.name in BANNED for atom in value)
        if banned or (node.id[:2] == "__" and node.id != "__name__"):
            self.fail(f"{node.id} cannot be followed")
        return value

    def v_namedexpr(self, node: ast.NamedExpr) -> Value:
        value, frame = self.value(node.value), self.frame
        while frame.parent and frame.inner:
            frame = frame.parent
        if node.target.id in ACCESSORS:
            self.fail(f"{node.target.id} is redefined")
        self.share(frame.outer.get(node.target.id, frame), node.target.id, value)
        return value

    def v_joinedstr(self, node: ast.JoinedStr) -> Value:
        form, values = "", []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                values.append(self.value(part.value))
                spec = "".join(self.value(part.format_spec)) if part.format_spec else ""
                form += (
                    "{" + ("!a" if part.conversion == 97 else "!r" if part.conversion == 114 else "") + ":" + spec + "}"
                )
            else:
                form += "".join(self.value(part)).replace("{", "{{").replace("}", "}}")
        return self.formatted(form, Args(values, {}))

    def v_list(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        values = tuple(self.value(part) for part in node.elts)
        sure = not isinstance(node, ast.Set) and not starred(node.elts)
        self.compared(*(values if isinstance(node, ast.Set) else ()))
        return frozenset({Box(self.here(node), values if sure else (NONE.union(*values),), sure=sure)})

    v_tuple = v_set = v_list

    def v_starred(self, node: ast.Starred) -> Value:
        return self.elements(self.value(node.value))

    def v_dict(self, node: ast.Dict) -> Value:
        keys = [self.value(key) if key else UNKNOWN for key in node.keys]
        values = [self.value(value) for value in node.values]
        values = [value if key else self.unpacked(value) for key, value in zip(node.keys, values, strict=True)]
        self.compared(*keys)
        sure = all(len(key) == 1 and not key & VAGUE for key in keys)
        every = NONE.union(*keys)
        if sure and len(every) == len(keys):
            return frozenset({Box(self.here(node), (*values,), tuple(next(iter(key)) for key in keys))})
        return frozenset({Box(self.here(node), (NONE.union(*values),) * len(every), (*every,), sure=False)})

    def unpacked(self, value: Value) -> Value:
        """Return the content of a dict that is unpacked into another; an unpacked table counts as read."""
        self.escape(frozenset(atom for atom in value if isinstance(atom, Table)))
        return self.contents(value)

    def v_slice(self, node: ast.Slice) -> Value:
        self.opaque(*map(self.value, ast.iter_child_nodes(node)))
        return PLAIN

    def v_unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.test(node.operand)
        if not isinstance(node.op, ast.Not):
            self.opaque(value)
        number = next(iter(value)) if len(value) == 1 and isinstance(node.op, ast.USub) else None
        return frozenset({-number}) if isinstance(number, int) else PLAIN

    def v_boolop(self, node: ast.BoolOp) -> Value:
        return NONE.union(*map(self.test, node.values))

    def v_ifexp(self, node: ast.IfExp) -> Value:
        self.test(node.test)
        return self.value(node.body) | self.value(node.orelse)

    def v_compare(self, node: ast.Compare) -> Value:
        nodes = [node.left, *node.comparators]
        values = [self.value(part) for part in nodes]
        for place, op in enumerate(node.ops):
            left, right = values[place : place + 2]
            if isinstance(op, (ast.In, ast.NotIn)):
                self.sought(left, right)
            elif not isinstance(op, (ast.Is, ast.IsNot)) and not any(map(is_blank, nodes[place : place + 2])):
                self.opaque(left, right)
        return PLAIN

    def sought(self, what: Value, where: Value) -> None:
        """Search for values in others: in the column names of a table, or the cells of a tuple."""
        self.compared(what)
        boxes = frozenset(atom for atom in where if isinstance(atom, Box))
        if not all(atom is None or (isinstance(atom, (str, int)) and atom not in (DATA, MURKY)) for atom in what):
            self.escape(self.elements(boxes) if boxes else NONE)
        for atom in where:
            known = isinstance(atom, Table) and atom.shape == "item" and what <= (self.columns_of(atom) or NONE)
            if isinstance(atom, Table) and atom.shape not in ("frame", "row", "record") and not known:
                self.escape(frozenset({atom}))

    def v_binop(self, node: ast.BinOp) -> Value:
        return self.combine(node.op, self.value(node.left), self.value(node.right))

    def combine(self, op: ast.operator, left: Value, right: Value) -> Value:
        both = left | right
        texts = {atom for atom in left if isinstance(atom, str)}
        if isinstance(op, ast.Mod) and texts - {DATA}:
            rest = self.opaque(left - texts, right) | UNKNOWN if left - texts - PLAIN else NONE
            return rest.union(*(self.percent(text, right) for text in texts))
        if any(isinstance(atom, Table) and atom.shape in LOOSE for atom in both):
            self.escape(both)
            return UNKNOWN
        maps = [atom for atom in both if isinstance(atom, Box) and atom.keys is not None]
        if maps and isinstance(op, ast.BitOr):
            keys = self.elements(frozenset(maps))
            values = NONE.union(*(self.every(one) for one in maps))
            return frozenset({Box(self.here(), (values,) * len(keys), (*keys,), sure=False)})
        if any(isinstance(atom, Box) for atom in both):
            return self.moved(itertools.chain, left, right, order=isinstance(op, ast.Add))
        if tables := frozenset(atom for atom in both if isinstance(atom, Table)):
            return tables
        if isinstance(op, ast.Add) and any(isinstance(atom, str) for atom in both):
            return self.added(left, right)
        return UNKNOWN if self.opaque(both) == UNKNOWN else PLAIN

    def added(self, left: Value, right: Value) -> Value:
        """Concatenate strings; data may be a number and be added to other values."""
        words = [frozenset(atom for atom in side if isinstance(atom, str)) for side in (left, right)]
        out = self.text("{}{}".format, *words) if all(words) else NONE
        for this, others in ((words[0], right - words[1]), (words[1], left - words[0])):
            out |= this & {DATA, MURKY} if others else NONE
        return out | (PLAIN if left - words[0] and right - words[1] else NONE) or UNKNOWN

    def v_lambda(self, node: ast.Lambda | ast.FunctionDef) -> Value:
        spec = node.args
        names = [arg.arg for arg in [*spec.posonlyargs, *spec.args]]
        pairs = [*zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True)]
        pairs += [(arg.arg, default) for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default]
        return frozenset({Function(node, self.frame, tuple((name, self.value(default)) for name, default in pairs))})

    def v_listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        out: list[Value] = []
        sure = self.generate(node.generators, lambda: out.append(self.value(node.elt)))
        return frozenset({Box(self.here(node), (*out,) if sure else (NONE.union(*out),), sure=sure)})

    v_generatorexp = v_listcomp

    def v_setcomp(self, node: ast.SetComp) -> Value:
        made = self.v_listcomp(node)
        self.compared(self.elements(made))
        return made

    def v_dictcomp(self, node: ast.DictComp) -> Value:
        made = Box(self.here(node), (), ())
        self.generate(node.generators, lambda: self.put(made, self.value(node.key), self.value(node.value)))
        return frozenset({made})

    def generate(self, generators: list[ast.comprehension], make: Callable[[], object]) -> bool:
        """Interpret the loops of a comprehension; return whether its elements are made in order."""
        if not generators:
            make()
            return True
        source, tests = self.value(generators[0].iter), generators[0].ifs
        exact = [bool(self.turns(source)) and not tests]

        def body(item: Value) -> None:
            self.assign(generators[0].target, item)
            for test in tests:
                self.test(test)
            exact.append(self.generate(generators[1:], make))

        frame = self.frame
        self.frame = inner = Frame(frame, {}, inner=True)
        self.loop(source, body)
        inner.alive, self.frame = False, frame
        return all(exact)

    def v_attribute(self, node: ast.Attribute) -> Value:
        return NONE.union(*(self.member(atom, node.attr) for atom in self.value(node.value)))

    def member(self, atom: Any, name: str) -> Value:
        if name in ACCESSORS:
            return frozenset({ToolName(name)})
        if atom is None and name == "__name__":  # of a class
            return SOME
        if name[:2] == "__" or isinstance(atom, Function) or (isinstance(atom, ToolName) and FORBIDDEN.fullmatch(name)):
            self.fail(f".{name} cannot be followed")
        if isinstance(atom, ToolName):
            if name not in COMPUTING.get(atom.name, {name}):
                self.fail(f"{atom.name}.{name} cannot be followed")
            return frozenset({ToolName(f"{atom.name}.{name}")})
        if isinstance(atom, Table):
            return self.column(atom, name)
        if isinstance(atom, Box) and name not in ("get", "keys", "values", "items", "count", "index", "copy"):
            self.put(atom, PLAIN, self.every(atom) | UNKNOWN)
        return PLAIN if atom is None else SOME if atom == DATA and name not in ("dtype", "dtypes") else UNKNOWN

    def column(self, table: Table, name: str) -> Value:
        if name in ("loc", "iloc", "at", "iat"):
            if table.shape != "frame":  # of a series, by the place of a cell or by its name
                return frozenset({table}) if "i" not in name else self.opaque(frozenset({table}))
            return frozenset({table._replace(shape="iloc" if "i" in name else "loc")})
        if name in ("empty", "shape", "size", "ndim", "columns", "index", "dtypes", "axes"):
            return PLAIN if name in ("empty", "shape", "size", "ndim") else UNKNOWN
        if name in ("values", "T"):
            return self.opaque(frozenset({table}))
        if table.shape == "groups" and name in ("groups", "indices"):
            return SOME
        known = self.columns_of(table)
        if name in ("Index", "name") and name not in (known or [name]):
            return SOME  # the label of a row
        self.read(table, name)
        made = any(name in part.made for part in table.parts)
        if not made and (name not in known if known is not None else name in METHODS):
            return self.opaque(frozenset({table})) | UNKNOWN  # a method, perhaps
        return SOME

    def v_subscript(self, node: ast.Subscript) -> Value:
        base, index = self.value(node.value), self.value(node.slice)
        return NONE.union(*(self.item(atom, index, node.slice) for atom in base))

    def item(self, atom: Any, index: Value, node: ast.expr) -> Value:
        place = literal(node)
        if isinstance(atom, Table):
            pair = isinstance(node, ast.Tuple) and bool(node.elts) and literal(node.elts[-1]) != slice(None)
            return self.pick(atom, index, pair=pair)
        if isinstance(atom, Box) and isinstance(node, ast.Slice):
            known = place is not None and bool(self.turns(frozenset({atom})))
            return self.moved(lambda turns: turns[place] if known else turns, frozenset({atom}), order=known)
        if isinstance(atom, Box):
            return self.get(atom, index) or UNKNOWN
        if isinstance(atom, str) and atom != DATA and isinstance(place, slice) and is_marked(atom):
            return cut(atom, place)
        if isinstance(atom, str) and not is_marked(atom) and place is not None:
            return self.text(lambda text: text[place], frozenset({atom}))
        return frozenset({atom}) if atom in (None, DATA) else UNKNOWN

    def pick(self, table: Table, index: Value, *, pair: bool) -> Value:
        """Subscript a table by a column, columns or a mask; through loc and iloc, by rows and these."""
        if table.shape in ("loc", "iloc"):
            frame, row = table._replace(shape="frame"), table._replace(shape="row")
            self.visit(frozenset(self.leaves(index)), frozenset({frame}))
            if not pair:
                return frozenset({frame, row})
            index = (self.turns(index) or [UNKNOWN])[-1]
            if index & VAGUE:  # which column it is, is not known
                return self.opaque(frozenset({frame})) | {frame}
            return NONE.union(*(self.chosen(frame, atom) for atom in index))
        return NONE.union(*(self.chosen(table, atom) for atom in index))

    def chosen(self, frame: Table, atom: Any) -> Value:
        names = {name for name in self.leaves(frozenset({atom})) if isinstance(name, str)}
        self.compared(frozenset({atom}))  # a row as a key, or the cells of a mask
        if isinstance(atom, int) and frame.shape == "frame":  # as if it were a list of rows
            return frozenset({frame._replace(shape="item")})
        if names & {DATA, MURKY} or isinstance(atom, (int, Table)):
            return self.opaque(frozenset({frame})) | {frame}
        if isinstance(atom, str):
            self.read(frame, atom)
            return SOME
        self.visit(frozenset({atom}), frozenset({frame}))
        parts = [
            part._replace(columns=part.columns & names if part.columns else frozenset(names)) for part in frame.parts
        ]
        return frozenset({frame._replace(parts=(*parts,)) if names else frame})


def is_blank(node: ast.expr) -> bool:
    """Tell whether an expression is written as None or as an empty container, with which nothing else is compared."""
    return (
        (isinstance(node, ast.Constant) and node.value is None)
        or (isinstance(node, (ast.List, ast.Tuple)) and not node.elts)
        or (isinstance(node, ast.Dict) and not node.keys)
    )
