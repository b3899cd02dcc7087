"""Every message of the package, collected in build/messages.txt, to be read from top to bottom."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PHRASES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["words"]["phrases"]


OTHER_QUOTES = re.compile(r"(?<!`)`(?!`)|(?<!\{)\"\{")  # but for code blocks and JSON, which answers of models have


def text_of(node: ast.AST) -> str:
    """A string with its placeholders; empty for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=value, conversion=conversion):
            return f"{{{ast.unparse(value)}{'!r' if conversion == ord('r') else ''}}}"
        case ast.JoinedStr(values=parts):
            return "".join(map(text_of, parts))
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return text_of(left) + text_of(right)
    return ""


def messages(tree: ast.Module) -> Iterator[tuple[int, bool, str]]:
    """Line, whether it is raised, and text of every string of several words but docstrings."""
    nodes = list(ast.walk(tree))
    raised = {id(part) for node in nodes if isinstance(node, ast.Raise) for part in ast.walk(node)}
    seen = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    named = [node for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "scenario"]
    seen |= {id(part) for node in named for part in node.args}  # names, and no messages
    for node in nodes:
        if isinstance(node, ast.expr) and id(node) not in seen and " " in (text := " ".join(text_of(node).split())):
            seen.update(map(id, ast.walk(node)))
            yield node.lineno, id(node) in raised, text


def test_every_message_reads_like_one() -> None:
    """No phrase that a reader has to read twice; ids, values and paths stand in single quotes."""
    paths = sorted((ROOT / "guardagent").rglob("*.py"))
    raised_messages = [
        (f"{path.relative_to(ROOT)}:{line}", raised, text)
        for path in paths
        for line, raised, text in messages(ast.parse(path.read_text(encoding="utf-8")))
    ]
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "messages.txt").write_text(
        "".join(f"{place}: {text}\n" for place, _, text in raised_messages), encoding="utf-8"
    )
    assert [(place, text) for place, _, text in raised_messages if any(phrase in text for phrase in PHRASES)] == []
    assert [(place, text) for place, raised, text in raised_messages if raised and OTHER_QUOTES.search(text)] == []
