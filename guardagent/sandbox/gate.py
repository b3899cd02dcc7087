"""The static gate: decides on a program's syntax tree, before any of it runs, whether its syntax is allowed.

There is one visitor method per kind of syntax node; a kind without one is rejected. The walk is not recursive, so that
no program can exhaust the host's stack.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Any, NoReturn

from RestrictedPython.transformer import INSPECT_ATTRIBUTES

from guardagent._support import syntax
from guardagent.errors import ProgramError, name_hint
from guardagent.sandbox.worker.modules import MODULES

MAX_CHARACTERS = 100_000
MAX_NODES = 20_000
MAX_DEPTH = 100
INPUTS = ("agent_input", "agent_output", "facts")

METHODS = frozenset(
    "__init__ __post_init__ __repr__ __str__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __len__ __bool__ "
    "__contains__ __iter__ __next__ __getitem__ __call__ __enter__ __exit__ __add__ __sub__ __mul__ __or__ "
    "__and__".split()
)
READABLE = frozenset({"__name__", "__doc__", "__init__"})
"""Special attributes that may be read by name."""
_REFUSED_NAMES = frozenset(
    "eval exec compile open input globals locals vars dir breakpoint exit quit help memoryview "
    "copyright credits license".split()
)
_CONTEXTS = (ast.Load, ast.Store, ast.Del)
_ALTERNATIVES = {
    **dict.fromkeys(
        ("AsyncFunctionDef", "AsyncFor", "AsyncWith", "Await"), "write plain functions; toolbox calls are synchronous"
    ),
    **dict.fromkeys(
        ("TypeAlias", "TypeVar", "ParamSpec", "TypeVarTuple"), "leave type aliases and type parameters out"
    ),
    "TryStar": "catch exceptions with plain 'except'",
}


@lru_cache(maxsize=256)
def admit(program: str, functions: frozenset[str]) -> ast.Module:
    """Returns the syntax tree of a program that may run with these toolbox functions.

    Raises:
        ProgramError: it may not; the message has the line and an alternative.
    """
    tree = parse(program)
    _ProgramGate(functions).walk(tree)
    return tree


def parse(program: str) -> ast.Module:
    """Returns the syntax tree of a program.

    Raises:
        ProgramError: it is too long, or not Python.
    """
    if len(program) > MAX_CHARACTERS:
        raise ProgramError(f"the program has {len(program):,} characters; expected at most {MAX_CHARACTERS:,}")
    try:
        return syntax.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        raise ProgramError(
            f"line {line}: not Python: {getattr(error, 'msg', None) or error or 'nested too deep'}"
        ) from None


class _ProgramGate:
    def __init__(self, functions: frozenset[str]) -> None:
        self._functions = functions
        self._bound: dict[str, ast.AST] = {}
        self._read: dict[str, ast.AST] = {}
        self._called: set[str] = set()
        self._imported: set[str] = set()
        self._class_of: set[int] = set()

    def walk(self, tree: ast.Module) -> None:
        """Visits every node, then checks the names.

        Raises:
            ProgramError: the program may not run.
        """
        nodes, level, depth = 0, [tree], 0
        while level:
            nodes, depth = nodes + len(level), depth + 1
            if depth > MAX_DEPTH or nodes > MAX_NODES:
                bounds = f"deeper than {MAX_DEPTH} or has more than {MAX_NODES:,} nodes"
                self.refuse(level[0], f"the program is nested {bounds}; shorten it")
            below: list[Any] = []
            for node in level:
                getattr(self, f"visit_{node.__class__.__name__}", self._refuse_unknown)(node)
                for name in node._fields:
                    value = getattr(node, name, None)
                    if isinstance(value, list):
                        below += [item for item in value if isinstance(item, ast.AST)]
                    elif isinstance(value, ast.AST) and value.__class__ not in _CONTEXTS:
                        below.append(value)
            level = below
        self._check_names()

    def refuse(self, node: ast.AST, message: str) -> NoReturn:
        raise ProgramError(f"line {getattr(node, 'lineno', 1)}: {message}")

    def _refuse_unknown(self, node: ast.AST) -> None:
        kind = type(node).__name__
        instead = _ALTERNATIVES.get(kind, "write it with plain functions, loops and conditions")
        self.refuse(node, f"{kind!r} is not supported; {instead}")

    # Nodes that only contain other nodes, which are visited in turn.

    def _plain(self, node: ast.AST) -> None:
        pass

    visit_Expr = visit_Assign = visit_AugAssign = visit_AnnAssign = visit_Delete = visit_Return = visit_Pass = _plain
    visit_If = visit_For = visit_While = visit_Break = visit_Continue = visit_With = visit_withitem = _plain
    visit_Try = visit_Raise = visit_Assert = visit_Match = visit_match_case = visit_Yield = visit_YieldFrom = _plain
    visit_BoolOp = visit_NamedExpr = visit_BinOp = visit_UnaryOp = visit_Lambda = visit_IfExp = visit_Compare = _plain
    visit_Dict = visit_Set = visit_List = visit_Tuple = visit_Starred = visit_Subscript = visit_Slice = _plain
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_comprehension = _plain
    visit_FormattedValue = visit_JoinedStr = visit_Constant = visit_arguments = _plain
    visit_MatchValue = visit_MatchSingleton = visit_MatchSequence = visit_MatchOr = _plain
    visit_And = visit_Or = visit_Not = visit_Invert = visit_UAdd = _plain
    visit_USub = visit_Add = visit_Sub = visit_Mult = visit_Div = visit_FloorDiv = visit_Mod = visit_Pow = _plain
    visit_LShift = visit_RShift = visit_BitOr = visit_BitXor = visit_BitAnd = visit_MatMult = visit_Eq = _plain
    visit_NotEq = visit_Lt = visit_LtE = visit_Gt = visit_GtE = visit_Is = visit_IsNot = visit_In = visit_NotIn = _plain

    # Nodes that bind or read a name.

    def visit_Module(self, node: ast.Module) -> None:
        if not any(isinstance(item, ast.FunctionDef) and item.name == "check" for item in node.body):
            self.refuse(node, f"no function 'check' is defined; expected 'def check({', '.join(INPUTS)})'")

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read.setdefault(node.id, node)
        else:
            self._bind(node, node.id)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name):
            self._called.add(node.func.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in READABLE:
            if node.attr == "__name__" and isinstance(node.value, ast.Attribute) and node.value.attr == "__class__":
                self._class_of.add(id(node.value))  # `x.__class__.__name__` is the name of type(x), which is harmless
            return
        if id(node) in self._class_of:
            return
        if node.attr.startswith("__") or node.attr in INSPECT_ATTRIBUTES:
            self.refuse(node, f"the attribute {node.attr!r} is out of reach; use public methods and values")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._no_type_parameters(node)
        if node.name not in METHODS:
            self._bind(node, node.name)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._no_type_parameters(node)
        self._bind(node, node.name)
        for keyword in node.keywords:
            if keyword.arg != "total":  # of a TypedDict
                self.refuse(node, f"the class option {keyword.arg!r} is not supported; write a plain class")

    def visit_arg(self, node: ast.arg) -> None:
        if node.arg not in INPUTS:
            self._bind(node, node.arg)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg is not None:
            self._require_unreserved(node, node.arg)

    def _bind_name(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar) -> None:
        self._bind(node, node.name)

    visit_ExceptHandler = visit_MatchAs = visit_MatchStar = _bind_name

    def _bind_names(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            self._bind(node, name)

    visit_Global = visit_Nonlocal = _bind_names

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._bind(node, node.rest)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            self._require_unreserved(node, name)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._require_module(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module == "__future__":
            return
        if node.level or node.module is None:
            self.refuse(node, "relative imports are not supported; a program is one file")
        self._require_module(node, node.module)
        self._imported.update(alias.name for alias in node.names)

    def visit_alias(self, node: ast.alias) -> None:
        if node.name == "*":
            self.refuse(node, "'import *' is not supported; list the imported names")
        self._bind(node, (node.asname or node.name).partition(".")[0])

    # The rules.

    def _bind(self, node: ast.AST, name: str | None) -> None:
        if name is not None:
            self._bound.setdefault(name, node)

    def _check_names(self) -> None:
        for name, node in (self._bound | self._read).items():
            if name != "__name__":
                self._require_unreserved(node, name)
        for name, node in self._bound.items():
            # The program may bind the name of a function that it does not call, but never that of a check.
            if name in self._functions and (name.startswith("check_") or name in self._called - self._imported):
                self.refuse(node, f"{name!r} is a toolbox function and cannot be defined again; use another name")
            if name in INPUTS:
                self.refuse(node, f"{name!r} is an input and cannot be set again; use another name")
        for name in (_REFUSED_NAMES & self._read.keys()) - self._bound.keys():
            self.refuse(self._read[name], f"{name!r} is not available; use 'agent_input', 'agent_output' and 'facts'")

    def _require_unreserved(self, node: ast.AST, name: str) -> None:
        reserved = name.startswith("__") or (name[:1] == "_" == name[-1:] and len(name) > 1)
        if reserved or name in INSPECT_ATTRIBUTES or name in ("_print", "printed"):
            self.refuse(node, f"the name {name!r} is reserved; use another one")

    def _require_module(self, node: ast.AST, module: str) -> None:
        if module not in MODULES:
            self.refuse(node, f"the module {module!r} is not available{name_hint(module, MODULES)}")

    def _no_type_parameters(self, node: ast.AST) -> None:
        if getattr(node, "type_params", None):
            self.refuse(node, "type parameters are not supported; leave them out")
