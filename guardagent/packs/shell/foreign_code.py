"""Python code in a shell command (`python -c '...'`): only code that computes and prints is harmless."""

from __future__ import annotations

import ast
import re
import warnings

INTERPRETERS = re.compile(
    r"(?:python|perl|ruby|node|nodejs|php|lua|deno|bun|Rscript|osascript|pwsh|powershell|tclsh)[\d.]*"
)
_MODULES = frozenset(
    "json sys math re datetime time collections itertools functools decimal fractions statistics string "
    "random textwrap "
    "platform uuid hashlib base64 calendar pprint operator typing dataclasses enum struct zlib html unicodedata".split()
)
_FORBIDDEN = frozenset(
    "open exec eval compile __import__ getattr setattr delattr globals locals vars input breakpoint help memoryview "
    "__builtins__ __loader__ __spec__".split()
)


def is_harmless_python(code: str) -> bool:
    """Whether code only computes: it opens no file, starts no program and imports nothing that could."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(map(_is_harmless, ast.walk(tree)))


def _is_harmless(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return all(name.name in _MODULES for name in names)
        case ast.ImportFrom(module=module, names=names):
            return module in _MODULES and all(name.name not in ("modules", "os", "sys", "*") for name in names)
        case ast.Name(id=name):
            return name not in _FORBIDDEN and not name.startswith("__")
        case ast.Attribute(attr=name):
            return not name.startswith("_") and name not in ("modules", "os", "sys", "meta_path", "path_hooks")
    return True
