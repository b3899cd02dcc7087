"""Static checks before a program runs: the sandbox's gate, unknown names, clause comments."""

from __future__ import annotations

import ast
import builtins
import re

from guardagent._support import syntax
from guardagent.errors import ProgramError, name_hint
from guardagent.programs.compile.clauses import marked_lines
from guardagent.programs.compile.target import CompileTarget
from guardagent.sandbox.gate import INPUTS, admit

_HEADER = re.compile(r"^[ \t]*#[ \t]*guardagent program\b.*$", re.IGNORECASE | re.MULTILINE)


def problems_of(program: str, target: CompileTarget) -> list[str]:
    """Returns the problems of a program, each with its line; empty if it may run."""
    if not program.isprintable() and any("\ud800" <= character <= "\udfff" for character in program):
        return ["the program contains a lone surrogate; expected text that can be encoded as UTF-8"]
    try:
        admit(program, frozenset(target.toolbox))
    except ProgramError as error:
        return [str(error)]
    return [*unknown_names(program, target), *_no_check(program, target), *_unknown_clauses(program, target)]


def unknown_names(program: str, target: CompileTarget) -> list[str]:
    """Returns a problem per undefined name, most often a function that the toolbox lacks."""
    tree = syntax.parse(program)
    known = {*target.toolbox, *_bound_names(tree), *dir(builtins), *INPUTS, "__name__"}
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in known:
            kind = "function" if node.id in called else "name"
            among = target.toolbox if node.id in called else known
            found.setdefault(node.id, f"line {node.lineno}: unknown {kind} {node.id!r}{name_hint(node.id, among)}")
    return list(found.values())


def _bound_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                names.add(name)
            case ast.alias():
                names.add((node.asname or node.name).partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
            case _:
                pass
    return names


def _no_check(program: str, target: CompileTarget) -> list[str]:
    checks = sorted(name for name in target.toolbox if name.startswith("check_"))
    words = set(re.findall(r"\w+", program))
    if words & set(checks):
        return []
    return [f"the program calls no check, so it can never allow; expected one of {', '.join(map(repr, checks))}"]


def _unknown_clauses(program: str, target: CompileTarget) -> list[str]:
    known = {clause.number for clause in target.clauses}
    wrong = sorted(set(marked_lines(program)) - known)
    if not wrong:
        return []
    return [f"a comment names the unknown clause {wrong[0]}; expected a number from 1 to {len(known)}"]


def without_header(program: str) -> str:
    """Replaces header lines in a program, since compile writes the header."""
    return _HEADER.sub("# (header removed)", program)
