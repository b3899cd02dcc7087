"""The command `translate`: turns a policy document into a policy, its cases and a file for its review."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guardagent.cli.options import Json, MaxCost, Prices, PromptsFolder, Timeout, model_of
from guardagent.cli.output import note, print_json, print_line
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.translation.translation import Translation

Document = Annotated[str, typer.Argument(help="The policy document: Markdown, HTML, text or PDF.")]
Tools = Annotated[
    str,
    typer.Option("--tools", help="The tools of the agent: a JSON file, module:attribute, or mcp:COMMAND."),
]
Out = Annotated[Path, typer.Option("-o", "--out", help="The policy file; cases and review file are written beside it.")]
Traces = Annotated[
    Path | None, typer.Option("--traces", help="Recorded traces or cases (JSON Lines), as samples and as a test.")
]
Facts = Annotated[
    Path | None, typer.Option("--facts", help="The facts that the host gives, with descriptions (YAML or JSON).")
]
Toolbox = Annotated[
    list[Path] | None, typer.Option("--toolbox", help="A Python file with functions that rules may call; repeatable.")
]
Format = Annotated[
    str | None, typer.Option("--format", help="markdown, html, text or pdf (default: by content and suffix).")
]
ModelName = Annotated[str | None, typer.Option("--model", envvar="GUARDAGENT_MODEL", help="The model that translates.")]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", help="The folder of the model's answers, to resume (default: beside the policy file)."),
]
Parallel = Annotated[int, typer.Option("--parallel", min=1, max=64, help="Simultaneous model calls without a cap.")]
Reports = Annotated[
    list[Path] | None,
    typer.Option("--report", help="Also write the report to a file: .md, .html or .json; repeatable."),
]


def translate(
    document: Document,
    *,
    tools: Tools,
    out: Out,
    traces: Traces = None,
    facts: Facts = None,
    toolbox: Toolbox = None,
    document_format: Format = None,
    model: ModelName = None,
    prices: Prices = None,
    timeout: Timeout = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
    parallel: Parallel = 4,
    prompts: PromptsFolder = None,
    report: Reports = None,
    as_json: Json = False,
) -> None:
    """Translate a policy document into a policy that people can confirm.

    Writes the policy, its cases and its review file. Run it again to resume, to apply answers of the review, and after
    each change of the document. Exit status: 0 everything is settled, 1 questions or findings are open, 3 sentences
    could not be translated.
    """
    from guardagent.translation.report_formats import render
    from guardagent.translation.translation import translate as run

    formats = [_format_of(path) for path in report or []]
    if not model:
        raise InputError("no model is configured; expected '--model' or the environment variable 'GUARDAGENT_MODEL'")
    chosen = model_of(model, prices, timeout)
    result = run(
        document,
        tools,
        model=chosen or model,
        out=out,
        traces=traces,
        facts=facts,
        toolbox=toolbox or (),
        document_format=document_format,
        max_cost=max_cost,
        cache=cache,
        parallel=parallel,
        prompts=prompts,
        progress=note,
    )
    for path, name in zip(report or [], formats, strict=True):
        _write(path, render(result.summary, name))
    if as_json:
        print_json({**result.summary.to_dict(), "written": [str(path) for path in result.written]})
    else:
        print_line(render(result.summary, "markdown") + _written(result))
    raise typer.Exit(result.outcome)


def _format_of(path: Path) -> str:
    """The report format of a file.

    Raises:
        InputError: no format has its suffix, or its folder does not exist.
    """
    from guardagent.translation.report_formats import FORMATS

    names = {FORMATS.load(name).suffix: name for name in FORMATS}
    if path.suffix not in names:
        raise InputError(f"{path}: is no report; expected a file that ends in {', '.join(sorted(names))}")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder; expected the folder of the report")
    return names[path.suffix]


def _write(path: Path, text: str) -> None:
    from guardagent._support.files import save_text

    save_text(path, text)


def _written(result: Translation) -> str:
    """Says what was written, and what to do next."""
    if not result.written:
        return "\nNo policy was written.\n"
    files = "\n".join(f"- {path}" for path in result.written)
    return f"\nWritten:\n\n{files}\n\nNext: guardagent review {result.written[0]}\n"
