"""The command `bench-compare`: compares the results of several evaluations."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guardagent.cli.options import Json
from guardagent.cli.output import print_json
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.bench.comparison import Comparison

Folders = Annotated[list[Path], typer.Argument(help="Folders written by 'bench --out' over the same data.")]
Compiled = Annotated[
    Path | None, typer.Option("--compiled", help="The report of 'compile --json', for the break-even (a file).")
]
ComparisonFolder = Annotated[Path | None, typer.Option("--out", help="The folder for compare.md and compare.json.")]


def bench_compare(
    folders: Folders, *, compiled: Compiled = None, out: ComparisonFolder = None, as_json: Json = False
) -> None:
    """Compare the results of several evaluations.

    Reports metrics, the cost of a check, and the number of checks after which compiling pays off.
    """
    from guardagent.bench.comparison import compare, comparison_table

    found = compare(folders, compiled)
    table = comparison_table(found)
    if out is not None:
        _write_comparison(out, found, table)
    if as_json:
        print_json(found.to_dict())
    else:
        sys.stdout.write(table)


def _write_comparison(out: Path, found: Comparison, table: str) -> None:
    from guardagent.bench.results import write_text

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: the folder cannot be created: {error.strerror}") from None
    write_text(out / "compare.md", table)
    write_text(out / "compare.json", json.dumps(found.to_dict(), indent=2, ensure_ascii=False) + "\n")
