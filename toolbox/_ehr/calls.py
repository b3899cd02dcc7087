"""Calls of Python functions and methods."""

from __future__ import annotations

import ast
import itertools
import re
from typing import Any

from .expressions import Expressions
from .strings import HARMLESS, is_marked, tidy
from .values import (
    DATA,
    MURKY,
    NONE,
    PLAIN,
    SOME,
    UNKNOWN,
    Args,
    Box,
    Env,
    Function,
    Table,
    ToolName,
    Value,
)
from .vocabulary import (
    ACCESSORS,
    ALGEBRA,
    ASKING,
    BOOLEAN,
    COMPARING,
    GROWING,
    KEEPS,
    MOVERS,
    MUTATING,
    NUMERIC,
    SHRINKING,
    TOOLS,
)


class Calls(Expressions):
    """Evaluates calls. `t_NAME` is the effect of a named function."""

    def v_call(self, node: ast.Call) -> Value:
        func = node.func if isinstance(node.func, ast.Attribute) and node.func.attr not in ACCESSORS else None
        base = self.value(func.value if func else node.func)
        plain: list[Value] = [] if func else self.receiver(node.func)
        named: Env = {}
        for keyword in node.keywords:
            value = self.value(keyword.value)
            named |= {keyword.arg: value} if keyword.arg else self.spread(value)
        for arg in node.args:
            value = self.value(arg.value if isinstance(arg, ast.Starred) else arg)
            turns = self.turns(value) if isinstance(arg, ast.Starred) else [value]
            plain += turns or [self.elements(value)]
            named |= {} if turns else {"**": named.get("**", NONE)}
        self.node, args = node, Args(plain, named)
        return NONE.union(*(self.method(atom, func.attr, args) if func else self.call(atom, args) for atom in base))

    def receiver(self, func: ast.expr) -> list[Value]:
        """Return the table if an accessor is called as its method."""
        value = self.value(func.value) if isinstance(func, ast.Attribute) else NONE
        return [value] if any(isinstance(atom, Table) for atom in value) else []

    def spread(self, value: Value) -> Env:
        """Return the keyword arguments of an unpacked dict, `**` for unknown ones."""
        box = next(iter(value)) if len(value) == 1 and self.turns(value) else None
        if isinstance(box, Box) and box.keys and all(isinstance(key, str) and not is_marked(key) for key in box.keys):
            return dict(zip(box.keys, box.items, strict=True))
        return {"**": value}

    def call(self, atom: Any, args: Args) -> Value:
        if isinstance(atom, Function):
            return self.apply(atom, args.plain, args.named)
        if isinstance(atom, ToolName):
            return self.use(atom.name, args)
        if atom == MURKY:
            self.fail("the called function is only known at run time")
        return self.opaque(args.all())

    def use(self, name: str, args: Args) -> Value:
        base, _, last = name.rpartition(".")
        if name in TOOLS:
            out: Value = getattr(self, "t_" + TOOLS[name])(args)
            return out
        if name in MOVERS:
            if name in ("set", "frozenset", "sorted"):
                self.ranked(self.elements(NONE.union(*args.plain)), args)
            order = name not in ("set", "frozenset", "sorted")
            plain = args.plain if name in ("zip", "itertools.chain") else args.plain[:1]
            return SOME if plain == [SOME] else self.moved(MOVERS[name], *plain or [NONE], order=order)
        if base in ("str", "list", "dict", "set", "tuple") and args.plain:
            rest = Args(args.plain[1:], args.named)
            return NONE.union(*(self.method(atom, last, rest) for atom in args.plain[0]))
        if base == "re":
            return self.matched(last, args)
        out = self.opaque(args.all())
        if name in ("chr", "bytes", "bytearray"):
            return UNKNOWN
        for box in args.all() if MUTATING.fullmatch(name) else ():
            if isinstance(box, Box):
                self.put(box, PLAIN, self.every(box) | UNKNOWN)
        return PLAIN if NUMERIC.fullmatch(name) else out

    def ranked(self, each: Value, args: Args) -> None:
        """Compare elements by a key, or by all their content."""
        key = args.named.get("key", PLAIN)
        self.visit(key - PLAIN, each)
        if key & PLAIN:
            self.compared(each)

    def matched(self, name: str, args: Args) -> Value:
        """Search data with a regular expression; the result is data."""
        place = 2 if name in ("sub", "subn") else 1
        harmless = all(isinstance(x, str) and HARMLESS.fullmatch(x) for value in args.plain[1:place] for x in value)
        found = self.opaque(args.named.get("string", NONE), *args.plain[place : place + 1])
        self.opaque(args.all())
        whole = name in ("findall", "search", "match", "fullmatch", "split", "finditer", "sub", "subn")
        return SOME if whole and harmless and found == SOME and not args.named.keys() - {"string"} else UNKNOWN

    def method(self, atom: Any, name: str, args: Args) -> Value:
        if isinstance(atom, ToolName):
            return NONE.union(*(self.call(tool, args) for tool in self.member(atom, name)))
        if name[:2] == "__" or isinstance(atom, Function):
            self.fail(f".{name} cannot be followed")
        if isinstance(atom, Table):
            return self.table_method(atom, name, args)
        if isinstance(atom, Box):
            return self.box_method(atom, name, args)
        if name == "strftime":
            return self.t_strftime(args)
        text = isinstance(atom, str) and atom not in (DATA, MURKY)
        return self.text_method(atom, name, args) if text else self.data_method(atom, name, args)

    def data_method(self, atom: Any, name: str, args: Args) -> Value:
        funcs = frozenset(one for one in args.all() if isinstance(one, Function))
        called = NONE.union(*(self.repeat(func, [UNKNOWN if atom == MURKY else SOME]) for func in funcs))
        texty = self.opaque(called, args.all() - funcs) == UNKNOWN
        if texty and name in GROWING and name not in SHRINKING and atom != MURKY:
            self.fail("a string is added to data")
        if name == "replace" and len(args.plain) > 1 and args.plain[0] != UNKNOWN:
            texty = not all(isinstance(x, str) and re.fullmatch(r"[\s\d,.:;/()-]*", x) for x in args.plain[1])
        if name in BOOLEAN or called == PLAIN:
            return PLAIN
        odd = name in ("decode", "encode", "to_bytes", "tobytes", "translate", "view", "to_markdown")
        return UNKNOWN if atom == MURKY or odd or (texty and name not in KEEPS) else SOME

    def box_method(self, box: Box, name: str, args: Args) -> Value:
        arguments, this = args.all(), frozenset({box})
        self.visit(arguments, self.elements(this))
        self.box_compares(box, name, args)
        if name in ("keys", "values", "items", "most_common"):
            return self.views(box, name)
        if name in ("pop", "get", "setdefault", "popleft"):
            if name != "get":
                self.put(box, args.plain[0] if name == "setdefault" else PLAIN, NONE.union(*args.plain[1:]))
            return self.get(box, args.plain[0] if args.plain else PLAIN).union(*args.plain[1:]) or UNKNOWN
        if name in ALGEBRA:
            return self.moved(itertools.chain, this, *args.plain, order=not args.plain)
        if name in ("append", "add", "appendleft", "insert"):
            self.put(box, PLAIN, arguments)
        elif name in ("extend", "update", "extendleft"):
            unpacked = self.unpacked if box.keys is not None else self.contents
            self.put(
                box,
                self.elements(arguments) if box.keys is not None else PLAIN,
                unpacked(arguments) if arguments else NONE,
            )
            self.put(box, frozenset(args.named), NONE.union(*args.named.values()))
        elif name in GROWING:
            self.put(box, PLAIN, NONE)
        elif name not in ASKING:
            self.put(box, PLAIN, self.every(box) | UNKNOWN)
            return self.opaque(arguments) | UNKNOWN
        return PLAIN

    def box_compares(self, box: Box, name: str, args: Args) -> None:
        """Compare the content of a container with arguments, or with each other."""
        if name in COMPARING:
            self.sought(args.all(), frozenset({box}))
        if name == "sort":
            self.ranked(self.elements(frozenset({box})), args)

    def views(self, box: Box, name: str) -> Value:
        this = frozenset({box})
        keys = self.moved(list, this)
        known = bool(self.turns(this)) and box.keys is not None
        values = frozenset({Box(self.here(), box.items if known else (self.every(box),), sure=known)})
        return keys if name == "keys" else values if name == "values" else self.moved(zip, keys, values)

    def t_str(self, args: Args) -> Value:
        return self.text(str, *args.plain)

    def t_print(self, args: Args) -> Value:
        self.escape(args.all())
        return PLAIN

    def t_look(self, args: Args) -> Value:
        self.opaque(frozenset(atom for atom in args.all() if isinstance(atom, (ToolName, Function))))
        return PLAIN

    def t_bool(self, args: Args) -> Value:
        self.truth(args.all())
        return self.t_look(args)

    def t_getattr(self, args: Args) -> Value:
        names = args.plain[1] - PLAIN if not args.named else NONE
        if not names or not all(isinstance(name, str) and name.isidentifier() for name in names):
            self.fail("the attribute of getattr is only known at run time")
        found = [self.member(atom, name) for atom in args.plain[0] for name in names]
        return NONE.union(*found, *args.plain[2:])

    def t_itemgetter(self, args: Args) -> Value:
        """Return the equivalent lambda."""
        keys = [next(iter(value)) if len(value) == 1 else None for value in args.plain]
        if not keys or args.named or not all(isinstance(key, (str, int)) for key in keys):
            self.fail("the items of itemgetter are only known at run time")
        taken = [f"_[{key!r}]" for key in keys]
        function = ast.parse(f"lambda _: ({', '.join(taken)})", mode="eval").body
        ast.increment_lineno(function, self.node.lineno - 1)
        return self.value(function)

    def t_same(self, args: Args) -> Value:
        return args.plain[0]

    def t_type(self, args: Args) -> Value:
        if len(args.plain) != 1 or args.named:
            self.fail("a class made by type() cannot be followed")
        return self.t_look(args)

    def t_oracle(self, args: Args) -> Value:
        self.escape(args.all())
        return SOME

    def t_extreme(self, args: Args) -> Value:
        out = self.t_pick(args)
        self.ranked(out, args)
        return out

    def t_largest(self, args: Args) -> Value:
        self.ranked(self.elements(args.plain[1]), args)
        return self.moved(list, args.plain[1], order=False)

    def t_fromkeys(self, args: Args) -> Value:
        made = Box(self.here(), (), ())
        self.put(made, self.elements(args.plain[0]), args.plain[1] if len(args.plain) > 1 else PLAIN)
        return frozenset({made})

    def t_pick(self, args: Args) -> Value:
        arguments = NONE.union(*args.plain)
        self.opaque(frozenset(atom for atom in arguments if isinstance(atom, (ToolName, Function))))
        boxes = frozenset(atom for atom in arguments if isinstance(atom, Box))
        out = self.elements(arguments) if len(args.plain) == 1 else (arguments - boxes) | self.contents(boxes)
        return out | args.named.get("default", NONE)

    def t_dict(self, args: Args) -> Value:
        if "**" in args.named:
            self.fail("a dict of unknown keys cannot be followed")
        made = Box(self.here("dict"), (*args.named.values(),), (*args.named,))  # its defaults are made here, too
        arguments = NONE.union(*args.plain)
        self.escape(frozenset(atom for atom in arguments if isinstance(atom, Table)))
        for atom in arguments:
            if isinstance(atom, (ToolName, Function)):  # what makes defaults
                self.put(made, PLAIN, self.call(atom, Args([], {})))
            elif isinstance(atom, Box) and atom.keys is not None:
                for key in self.elements(frozenset({atom})):
                    self.put(made, frozenset({key}), self.get(atom, frozenset({key})))
            else:
                for one in self.elements(frozenset({atom})):
                    pair = [self.get(one, frozenset({n})) or UNKNOWN for n in (0, 1)] if isinstance(one, Box) else []
                    self.put(made, *(pair or [frozenset({one}), PLAIN]))
        return frozenset({made})

    def t_map(self, args: Args) -> Value:
        out: set[Any] = set()
        self.opaque(frozenset(atom for atom in args.plain[0] if isinstance(atom, ToolName)))
        arguments = Args([self.elements(value) for value in args.plain[1:]], {})
        self.loop(PLAIN, lambda _item: out.update(*(self.call(atom, arguments) for atom in args.plain[0] - PLAIN)))
        return frozenset({Box(self.here(), (frozenset(out),), sure=False)})

    def t_filter(self, args: Args) -> Value:
        self.t_map(args)
        return frozenset({Box(self.here(), (self.elements(args.plain[1]),), sure=False)})

    def t_strftime(self, args: Args) -> Value:
        """Return the strings that a time format may produce."""
        formats = [text for text in args.all() if isinstance(text, str) and text != DATA]
        texts = [re.sub(r"%[-#]?(.)", lambda match: "%" if match[1] == "%" else DATA, text) for text in formats]
        return frozenset(map(tidy, texts)) or SOME

    def t_merge(self, args: Args) -> Value:
        rest = Args(args.plain[1:], args.named)
        return NONE.union(*(self.method(atom, "merge", rest) for atom in args.plain[0]))

    def t_concat(self, args: Args) -> Value:
        tables = [atom for atom in self.leaves(args.all()) if isinstance(atom, Table)]
        parts = dict.fromkeys(part for table in tables for part in table.parts)
        shapes = {"frame", *("row" for table in tables if table.shape != "frame")}  # of rows it may be a series
        return frozenset(Table((*parts,), shape) for shape in shapes) if tables else self.opaque(args.all())
