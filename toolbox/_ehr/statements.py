"""Names, functions, control flow and statements."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from typing import Any

from .reads import Reads
from .strings import settled
from .values import (
    DATA,
    MANY,
    MURKY,
    NONE,
    PLAIN,
    SOME,
    TURNS,
    UNKNOWN,
    Box,
    Env,
    Frame,
    Function,
    Table,
    ToolName,
    Value,
    joined,
    starred,
    with_made,
)
from .vocabulary import (
    ACCESSORS,
    BUILTINS,
    COMPUTING,
    FORBIDDEN,
    MODULES,
)


class Statements(Reads):
    """Interprets statements: branches are joined, loops repeated until nothing changes."""

    # Names, functions, control flow.

    def bind(self, name: str, value: Value) -> None:
        if name in ACCESSORS:
            self.fail(f"{name} is redefined")
        frame = self.frame.outer.get(name)
        if frame:
            self.share(frame, name, value)
            return
        self.frame.env[name] = value
        for env in self.frame.caught:
            env[name] = env.get(name, NONE) | value

    def share(self, frame: Frame, name: str, value: Value) -> None:
        """Bind a shared name; the binding may or may not happen."""
        for env in (frame.env, *frame.caught):
            self.changes += not value <= env.get(name, NONE) or name in ACCESSORS
            env[name] = env.get(name, NONE) | value

    def lookup(self, name: str) -> Value:
        frame: Frame | None = self.frame
        while frame:
            frame = frame.outer.get(name, frame)
            if name in frame.env:
                return frame.env[name]
            frame = frame.parent
        return self.unbound

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            lists = [self.turns(frozenset({atom})) for atom in value]
            sure = all(len(one) == len(target.elts) for one in lists) and not starred(target.elts)
            for place, part in enumerate(target.elts):
                self.assign(part, NONE.union(*(one[place] for one in lists)) if sure else self.elements(value))
        elif isinstance(target, ast.Starred):
            self.assign(target.value, frozenset({Box(self.here(target), (value,), sure=False)}))
        elif isinstance(target, ast.Subscript):
            self.store(target, self.value(target.value), value)
        elif isinstance(target, ast.Attribute):
            base = self.value(target.value)
            self.escape(base)  # df.columns = [...] gives its columns other names
            if self.opaque(value) == UNKNOWN and base != UNKNOWN and not any(isinstance(x, Table) for x in base):
                self.fail(f"a string is stored in .{target.attr}")

    def store(self, target: ast.Subscript, bases: Value, value: Value) -> None:
        keys, slices = self.value(target.slice), isinstance(target.slice, ast.Slice)
        for base in bases:
            if isinstance(base, Table):  # its key may be a function
                self.visit(frozenset(self.leaves(keys)), frozenset({base._replace(shape="frame")}))
            if isinstance(base, Box):
                self.put(base, PLAIN if slices else keys, self.elements(value) if slices else value)
            elif self.opaque(value, keys if base == DATA else NONE) == UNKNOWN and base != MURKY:
                self.fail("a string is added to data")
        if isinstance(target.value, ast.Name) and any(isinstance(base, Table) for base in bases):
            names = [next(iter(name)) for name in self.turns(keys) or [keys] if len(name) == 1]
            made = {name for name in names if isinstance(name, str)}
            self.bind(target.value.id, frozenset(with_made(base, made) for base in bases))

    def block(self, nodes: Sequence[ast.stmt]) -> None:
        for node in nodes:
            self.node = node
            self.charge()
            handler = getattr(self, "s_" + type(node).__name__.lower(), None)
            if handler is None:
                self.fail(f"{type(node).__name__} cannot be followed")
            handler(node)

    def branch(self, *arms: Sequence[ast.stmt], texts: dict[int, str] | None = None) -> None:
        """Interpret alternative blocks; in those listed, a name is a string and so not a table."""
        start, ends = self.frame.env, []
        for place, arm in enumerate(arms):
            self.charge(1 + len(start) // 32)
            self.frame.env = {**start}
            name = (texts or {}).get(place)
            if name:
                self.frame.env[name] = only = frozenset(x for x in start[name] if not isinstance(x, Table)) | UNKNOWN
            self.block(arm)
            if name and self.frame.env[name] == only:
                self.frame.env[name] = start[name]
            ends.append(self.frame.env)
        self.frame.env = functools.reduce(joined, ends)

    def loop(self, value: Value, body: Callable[[Value], object]) -> None:
        """Interpret a body for each element; for an unknown number of elements, up to a fixed point."""
        frame, path, turns, jumped = self.frame, self.path, self.turns(value)[: MANY + 1], self.jumped
        turns = turns if len(turns) <= MANY else []
        caught = {**frame.env}
        frame.caught.append(caught)
        for count, item in enumerate(turns or [NONE] * TURNS):
            head, changes, self.jumped = {**frame.env}, self.changes, False
            self.charge(1 + len(head) // 32)
            self.path = (*path, count) if turns else path
            body(item or self.elements(value))
            frame.env = joined(frame.env, caught) if self.jumped else frame.env
            if not turns:
                frame.env = joined(head, frame.env)
                frame.env = settled(head, frame.env) if count > 1 else frame.env
                if frame.env == head and changes == self.changes:
                    break
        else:
            if not turns or (self.turns(value)[: MANY + 1] != turns and not self.has_keys(value, turns)):
                self.fail("the loop changes too much to follow")
        frame.caught.pop()
        self.path, self.jumped = path, jumped

    def has_keys(self, value: Value, turns: list[Value]) -> bool:
        """Tell whether a dict has exactly these keys; their values may have changed."""
        dicts = [atom for atom in value if isinstance(atom, Box) and atom.keys is not None]
        return len(dicts) == len(value) and all(self.stored[one.site].keys() <= NONE.union(*turns) for one in dicts)

    def repeat(self, func: Function, plain: list[Value] | None) -> Value:
        """Call a function any number of times."""
        out: set[Any] = set()
        self.loop(PLAIN, lambda _item: out.update(self.apply(func, plain, {})))
        return frozenset(out)

    def apply(self, func: Function, plain: list[Value] | None, named: Env) -> Value:
        """Interpret one call of a function; without arguments, any call."""
        spec, defaults, body = func.node.args, dict(func.defaults), func.node.body
        if func.node in self.active or not func.frame.alive or "**" in named:
            self.fail(
                "a function that is recursive, outlives its enclosing function or takes **names cannot be followed"
            )
        saved = self.frame, self.path, self.node, self.jumped
        self.charge(len(spec.args))
        self.frame, self.path = Frame(func.frame, {}), (*self.path, self.node)
        self.active.append(func.node)
        self.bind_rest(spec, plain, named)
        names = [arg.arg for arg in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]]
        placed = dict(zip(names[: len(names) - len(spec.kwonlyargs)], plain or (), strict=False))
        for name in names:
            value = placed.get(name) or named.get(name) or defaults.get(name) or UNKNOWN
            self.bind(name, value | UNKNOWN if plain is None else value)
        if isinstance(func.node, ast.Lambda):
            out = self.value(body)
        else:
            self.block(body)
            out = frozenset(self.frame.returned) | PLAIN
        self.frame.alive = False
        self.frame, self.path, self.node, self.jumped = saved
        self.active.pop()
        return out

    def bind_rest(self, spec: ast.arguments, plain: list[Value] | None, named: Env) -> None:
        """Bind *args and **kwargs."""
        names = {arg.arg for arg in [*spec.args, *spec.kwonlyargs]}
        more = {key: value for key, value in named.items() if key not in names}
        if spec.vararg:
            rest = (plain or [])[len(spec.posonlyargs) + len(spec.args) :]
            box = Box(self.here("*"), (*rest,) if plain is not None else (UNKNOWN,), sure=plain is not None)
            self.bind(spec.vararg.arg, frozenset({box}))
        if spec.kwarg:
            box = Box(self.here("**"), (*more.values(),), (*more,))
            if plain is None:
                self.put(box, UNKNOWN, UNKNOWN)
            self.bind(spec.kwarg.arg, frozenset({box}))

    # Statements: one method per kind of syntax node; another kind is refused.

    def s_expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def s_return(self, node: ast.Return) -> None:
        self.frame.returned |= self.value(node.value) if node.value else PLAIN

    def s_raise(self, node: ast.stmt) -> None:
        self.opaque(*map(self.value, ast.iter_child_nodes(node)))

    def s_pass(self, node: ast.stmt) -> None:
        self.jumped |= not isinstance(node, ast.Pass)

    s_assert, s_break, s_continue = s_raise, s_pass, s_pass

    def s_assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def s_annassign(self, node: ast.AnnAssign) -> None:
        self.value(node.annotation)
        if node.value:
            self.assign(node.target, self.value(node.value))

    def s_augassign(self, node: ast.AugAssign) -> None:
        old, new = self.value(node.target), self.value(node.value)
        boxes = frozenset(atom for atom in old if isinstance(atom, Box))
        for box in boxes:  # the list is updated in place
            if box.keys is None:
                self.put(box, PLAIN, self.contents(new))
            else:
                self.put(box, self.elements(new), self.unpacked(new))
        self.assign(node.target, boxes | (self.combine(node.op, old - boxes, new) if old - boxes else NONE))

    def s_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.bind(target.id, BUILTINS.get(target.id, SOME))
            elif isinstance(target, ast.Subscript):
                self.opaque(self.value(target.slice))
                for box in self.value(target.value):
                    if isinstance(box, Box):
                        self.put(box, PLAIN, NONE)

    def s_if(self, node: ast.If) -> None:
        self.test(node.test)
        test, arm = node.test, 0
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, arm = test.operand, 1
        name = self.text_name(test)
        self.branch(node.body, node.orelse, texts={arm: name} if name else {})

    def text_name(self, test: ast.expr) -> str | None:
        """Return the name that a condition `isinstance(name, str)` is about."""
        if not isinstance(test, ast.Call) or len(test.args) != 2 or not isinstance(test.args[0], ast.Name):
            return None
        name, called, kind = test.args[0].id, self.value(test.func), self.value(test.args[1])
        sure = called == {ToolName("isinstance")} and kind == {ToolName("str")}
        return name if sure and name in self.frame.env else None

    def s_while(self, node: ast.While) -> None:
        def turn(_item: Value) -> None:
            self.test(node.test)
            self.block(node.body)

        self.loop(PLAIN, turn)
        self.branch(node.orelse, [])

    def s_for(self, node: ast.For) -> None:
        def turn(item: Value) -> None:
            self.assign(node.target, item)
            self.block(node.body)

        self.loop(self.value(node.iter), turn)
        self.branch(node.orelse, [])

    def s_try(self, node: ast.Try) -> None:
        caught = {**self.frame.env}
        self.frame.caught.append(caught)
        self.block([*node.body, *node.orelse])
        ends = [self.frame.env]
        for handler in node.handlers:
            self.frame.env = {**caught}
            self.value(handler.type or ast.Constant(None))
            if handler.name:
                self.bind(handler.name, UNKNOWN)
            self.block(handler.body)
            ends.append(self.frame.env)
        self.frame.caught.pop()
        self.frame.env = functools.reduce(joined, [*ends, caught] if node.finalbody else ends)
        self.block(node.finalbody)

    def s_with(self, node: ast.With) -> None:
        for item in node.items:
            value = self.value(item.context_expr)
            if item.optional_vars:
                self.assign(item.optional_vars, value)
        self.block(node.body)

    def s_functiondef(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            self.fail("a decorated function cannot be followed")
        for note in [node.returns, *(arg.annotation for arg in ast.walk(node.args) if isinstance(arg, ast.arg))]:
            self.value(note or ast.Constant(None))
        self.bind(node.name, self.v_lambda(node))

    def s_global(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            frame = self.frame.parent or self.frame
            while frame.parent and (isinstance(node, ast.Global) or name not in frame.env):
                frame = frame.parent
            self.frame.outer[name] = frame

    s_nonlocal = s_global

    def s_import(self, node: ast.Import | ast.ImportFrom) -> None:
        module, relative = "", False
        if isinstance(node, ast.ImportFrom):
            module, relative = f"{node.module}.", bool(node.level)
        for alias in node.names:
            name = module + alias.name
            first, *rest = name.split(".")
            unknown = rest[:1] != ["*"] and not COMPUTING.get(first, {*rest}).issuperset(rest[:1])
            if first not in MODULES or any(map(FORBIDDEN.fullmatch, rest)) or relative or unknown:
                self.fail(f"{name} cannot be followed")
            self.unbound = UNKNOWN if alias.name == "*" else self.unbound
            whole = bool(alias.asname or module)
            self.bind(
                alias.asname or (alias.name if module else first), frozenset({ToolName(name if whole else first)})
            )

    s_importfrom = s_import
