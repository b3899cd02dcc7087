"""columns_read on programs as models write them, and on programs that hide their reads.

Both are in text files: after each heading, `### NAME | DATABASE: COLUMNS; ...`, a program; or `refused: WHY`.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from guardagent import Toolbox

ROOT = Path(__file__).parents[3]
SCHEMA = runpy.run_path(str(ROOT / "memory" / "ehragent" / "program.py"))["SCHEMA"]
columns_read = Toolbox.load().functions["columns_read"]


def programs(name: str) -> list[object]:
    text = (Path(__file__).parent / "ehr" / name).read_text()
    blocks = [block.partition("\n") for block in re.split(r"(?m)^### ", text)[1:]]
    return [pytest.param(head.partition(" | ")[2], code, id=head.partition(" | ")[0]) for head, _, code in blocks]


def reads(spec: str) -> dict[str, list[str]]:
    parts = [part.partition(":") for part in spec.split(";") if part.strip()]
    return {database.strip(): sorted(columns.split()) for database, _, columns in parts}


@pytest.mark.parametrize(("spec", "code"), programs("programs.txt"))
def test_reads_what_models_write(spec: str, code: str) -> None:
    """Rows of any kind, collected or not, and conditions put together in any way are read exactly."""
    log = code if "Generated code:" in code else f"Knowledge:\n- It is there.\n\nGenerated code:\n{code}\nAnswer:\nx"
    assert columns_read(log, SCHEMA) == reads(spec)


@pytest.mark.parametrize(("spec", "code"), programs("hidden.txt"))
def test_finds_or_refuses_what_is_hidden(spec: str, code: str) -> None:
    """No form that is read lets a column pass that a program reads through it."""
    if spec.startswith("refused: "):
        with pytest.raises(ValueError, match=spec.removeprefix("refused: ")):
            columns_read(code, SCHEMA)
    else:
        assert columns_read(code, SCHEMA) == reads(spec)
