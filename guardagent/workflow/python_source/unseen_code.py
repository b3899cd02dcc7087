"""Finds the statements of a file that decide the value of a name, and the imported files that change other files.

A definition, an import or a constant decides its name alone. Any other name has an object that the file may change
after it has bound it, through any name of it. So the statements of such a name are all that bind it or mention it,
directly or in a function that they call, and all that bind or mention the names in these statements (`TopLevel`).

Few imported files change objects of other files: by a registration through a call or a decorator, an item of a table,
an attribute of another module. A file may do so if a statement at its top level mentions a name that it imports from
the program, or one of its own functions or classes. `acting_files` finds these from their text alone, as parsing all
files that a program imports would take most of its budget.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from guardagent.workflow.python_source.scopes import bound_names, statements

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_REPORTS = {"print", "logger", "logging", "log", "warnings", "sys"}


class TopLevel:
    """The top level of a file, by the names that its statements bind and mention."""

    def __init__(self, tree: ast.Module) -> None:
        self._statements = tree.body
        self._binders: dict[str, list[int]] = {}
        self._inside: dict[str, set[str]] = {}
        imported: set[str] = set()
        for place, node in enumerate(tree.body):
            for name in _names_of(node):
                self._binders.setdefault(name, []).append(place)
            if isinstance(node, _Definition):
                self._inside.setdefault(node.name, set()).update(_mentioned(node))
            imported |= _imported(node)
        self._simple = {place for place, node in enumerate(tree.body) if _is_simple(node, imported)}
        self._uses: dict[int, set[str]] = {}
        self._users: dict[str, list[int]] = {}
        for place in range(len(tree.body)):
            if place not in self._simple:
                self._index(place)

    def _index(self, place: int) -> None:
        """Notes the names that a statement mentions, also in the definitions that it mentions."""
        names: set[str] = set()
        pending = _mentioned(self._statements[place]) | set(_names_of(self._statements[place]))
        while pending:
            names |= pending
            inside = [self._inside[name] for name in pending if name in self._inside]
            pending = set().union(*inside) - names
        self._uses[place] = {name for name in names if name in self._binders and not self._is_settled(name)}
        for name in self._uses[place]:
            self._users.setdefault(name, []).append(place)

    def _is_settled(self, name: str) -> bool:
        """Whether one simple statement alone binds a name."""
        places = self._binders[name]
        return len(set(places)) == 1 and places[0] in self._simple

    @property
    def names(self) -> Iterable[str]:
        """All names that it binds."""
        return self._binders

    def acting(self, names: Collection[str]) -> list[int]:
        """Returns the places of the statements that use some names, themselves or in the definitions that they use."""
        return [place for place, node in enumerate(self._statements) if self._reaches(_run_by(node), set(names))]

    def _reaches(self, mentioned: set[str], names: set[str]) -> bool:
        visited: set[str] = set()
        pending = mentioned
        while pending and not pending & names:
            visited |= pending
            inside = [self._inside[name] for name in pending if name in self._inside]
            pending = set().union(*inside) - visited
        return bool(pending)

    def deciding(self, name: str) -> list[int]:
        """Returns the places of the statements that decide the value of a name."""
        if name not in self._binders:
            return []
        if self._is_settled(name):
            return self._binders[name]
        places: set[int] = set()
        names, seen = [name], {name}
        while names:
            bound_name = names.pop()
            for place in {*self._binders[bound_name], *self._users.get(bound_name, ())} - places:
                places.add(place)
                fresh = self._uses.get(place, set()) - seen
                seen |= fresh
                names.extend(fresh)
        return sorted(places)


def _names_of(node: ast.stmt) -> Iterator[str]:
    """Yields the names that a statement of a file binds, also in its branches."""
    if isinstance(node, _Definition):
        yield node.name
        return
    for inner in statements([node]):
        yield from bound_names(inner)


def _run_by(node: ast.stmt) -> set[str]:
    """Returns the names that a statement mentions as it runs: not those in the body of a function."""
    match node:
        case ast.Import() | ast.ImportFrom():
            return set()
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            parts: list[ast.AST] = [*node.decorator_list]
        case ast.ClassDef():
            parts = [*node.decorator_list, *node.bases, *node.keywords]
            parts += [
                statement
                for statement in node.body
                if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
        case _:
            parts = [node]
    return set().union(*map(_mentioned, parts))


def _mentioned(node: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(node) if isinstance(node, ast.Name)}


def _imported(node: ast.stmt) -> set[str]:
    imports = [statement for statement in statements([node]) if isinstance(statement, ast.Import | ast.ImportFrom)]
    return {name for statement in imports for name in bound_names(statement)}


def _is_simple(node: ast.stmt, imported: set[str]) -> bool:
    """Whether a statement only defines, imports or sets constants."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return all(_is_foreign(decorator, imported) for decorator in node.decorator_list)
        case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Raise():
            return True
        case ast.Expr(value=value):
            return isinstance(value, ast.Constant) or (isinstance(value, ast.Call) and _root(value) in _REPORTS)
        case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(target=ast.Name(), value=value):
            return value is None or _is_constant(value)
        case ast.If():
            return all(_is_simple(statement, imported) for statement in (*node.body, *node.orelse))
        case ast.Try():
            bodies = (node.body, node.orelse, node.finalbody, *(handler.body for handler in node.handlers))
            return all(_is_simple(statement, imported) for body in bodies for statement in body)
    return False


def _is_constant(node: ast.expr) -> bool:
    """Whether an expression is a plain value, which nothing can change."""
    if isinstance(node, ast.BinOp):
        return _is_constant(node.left) and _is_constant(node.right)
    return isinstance(node, ast.Constant | ast.JoinedStr)


def _is_foreign(decorator: ast.expr, imported: set[str]) -> bool:
    """Whether a decorator is imported or built in, so it changes nothing in this file."""
    root = _root(decorator)
    return root in imported or hasattr(builtins, root)


def _root(node: ast.expr) -> str:
    """Returns the name at the beginning of an expression such as `a.b(c)`; empty if there is none."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


# --- imported files that change objects of other files

MOST_FILES = 300
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<level>\.*)[ \t]*(?P<module>[\w.]*)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^#\n]*)"
    r"|import[ \t]+(?P<modules>[\w.][\w., \t]*))",
    re.MULTILINE,
)
_BY_NAME = re.compile(r"(?:import_module|__import__)\(\s*['\"]([\w.]+)['\"]")
_CHUNK = re.compile(r"\n(?=[^\s#)\]}])")
_SILENT = re.compile(r"(?:async[ \t]+def|def|import|from|if[ \t]+__name__|if[ \t]+TYPE_CHECKING)\b|[rRbBuU]?['\"]")
_CLASS = re.compile(r"class[ \t]+\w+[ \t]*(\([^:]*\))?:")
_LOADERS = frozenset({"import_module", "importlib", "__import__", "entry_points", "exec", "runpy"})
_DEFINED = re.compile(r"^(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)
_PATCH = re.compile(r"^[ \t]*(?:setattr\([ \t]*)?(\w+)(?:\.\w+)+[ \t]*=[^=]|^[ \t]*setattr\([ \t]*(\w+)", re.MULTILINE)

Find = Callable[[Path, list[str], int], list[Path]]
"""Returns the files of the program that a module of that name can be, for a file that imports it."""


@dataclass(frozen=True)
class ActingFile:
    """An imported file that may change objects of other files.

    Attributes:
        path: the file.
        names: the names that it imports from files of the program.
        patches: it assigns an attribute of one of them.
    """

    path: Path
    names: frozenset[str]
    patches: bool


@dataclass(frozen=True)
class ImportedText:
    """The imports in the text of a file: modules with the names that they are bound to."""

    text: str

    def modules(self) -> Iterator[tuple[list[str], int, list[str]]]:
        """Yields each imported module: the parts of its name, its level, and the names that are bound."""
        for match in _IMPORT.finditer(self.text):
            if match["modules"]:
                for imported in match["modules"].split(","):
                    name, _, bound = imported.strip().partition(" as ")
                    yield name.strip().split("."), 0, [bound.strip() or name.strip().partition(".")[0]]
                continue
            module, level = [part for part in match["module"].split(".") if part], len(match["level"])
            pairs = [part.strip().partition(" as ") for part in match["names"].strip("() \t").split(",")]
            names = [(name.strip(), bound.strip() or name.strip()) for name, _, bound in pairs if name.strip()]
            yield module, level, [bound for _, bound in names]
            yield from (([*module, name], level, [bound]) for name, bound in names if name.isidentifier())
        for match in _BY_NAME.finditer(self.text):
            yield match[1].split("."), 0, []

    def acts(self, names: Iterable[str]) -> bool:
        """Whether a statement at the top level mentions one of some names, or calls a function of the file."""
        known = {*names, *_DEFINED.findall(self.text), *_LOADERS}
        mentioned = re.compile(rf"\b(?:{'|'.join(map(re.escape, known - {'*'}))})\b")
        for chunk in _CHUNK.split(self.text):
            if _SILENT.match(chunk):
                continue
            made = _CLASS.match(chunk)
            if mentioned.search((made[1] or "") if made else chunk):
                return True
        return False

    def patches(self, names: Iterable[str]) -> bool:
        """Whether it assigns an attribute of one of some names."""
        known = set(names)
        return any((match[1] or match[2]) in known for match in _PATCH.finditer(self.text))


def acting_files(main: Path, text: str, find: Find) -> tuple[list[ActingFile], bool]:
    """Returns the files that a program imports, directly or not, and that may change objects of other files.

    They are in the order of their imports. Also returns whether these are all.
    """
    seen = {main}
    acting: list[ActingFile] = []
    pending: list[tuple[Path, str]] = [(main, text)]
    while pending:
        path, text = pending.pop(0)
        own = ImportedText(text)
        names: set[str] = set()
        for parts, level, bound in own.modules():
            files = find(path, parts, level)
            names |= set(bound) if files else set()
            for file in files:
                if file not in seen and file.suffix == ".py":
                    seen.add(file)
                    if len(seen) <= MOST_FILES:
                        pending.append((file, _text_of(file)))
        if path != main and own.acts(names):
            acting.append(ActingFile(path, _LOADERS | names, own.patches(names)))
    return acting, len(seen) <= MOST_FILES


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
