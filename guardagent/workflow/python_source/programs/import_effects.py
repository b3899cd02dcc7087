"""Finds the imported files that change objects of other files as they are imported, from their text alone.

Parsing all files that a program imports would take most of its budget, and few of them change anything: a registration
by a call or a decorator, an item of a table, an attribute of another module. A file may do so if a statement at its top
level mentions a name that it imports from the program, or one of its own functions or classes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

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
        for found in _IMPORT.finditer(self.text):
            if found["modules"]:
                for one in found["modules"].split(","):
                    name, _, bound = one.strip().partition(" as ")
                    yield name.strip().split("."), 0, [bound.strip() or name.strip().partition(".")[0]]
                continue
            module, level = [part for part in found["module"].split(".") if part], len(found["level"])
            pairs = [one.strip().partition(" as ") for one in found["names"].strip("() \t").split(",")]
            names = [(name.strip(), bound.strip() or name.strip()) for name, _, bound in pairs if name.strip()]
            yield module, level, [bound for _, bound in names]
            yield from (([*module, name], level, [bound]) for name, bound in names if name.isidentifier())
        for found in _BY_NAME.finditer(self.text):
            yield found[1].split("."), 0, []

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
        return any((found[1] or found[2]) in known for found in _PATCH.finditer(self.text))


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
            for one in files:
                if one not in seen and one.suffix == ".py":
                    seen.add(one)
                    if len(seen) <= MOST_FILES:
                        pending.append((one, _text_of(one)))
        if path != main and own.acts(names):
            acting.append(ActingFile(path, _LOADERS | names, own.patches(names)))
    return acting, len(seen) <= MOST_FILES


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
