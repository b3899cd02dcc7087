"""The commands `translate`, `review` and `import`.

`translate` turns a policy document into a policy, its cases and a file for its review. In `review` a person goes
through the translated policy, sentence by sentence. `import` translates rules of another format.
"""

from __future__ import annotations

import getpass
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from guardagent.cli import options
from guardagent.cli.options import note, print_json, print_line, print_result, screen
from guardagent.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from guardagent.translation.imports.report import ImportReport
    from guardagent.translation.pipeline import Translation
    from guardagent.translation.review.dossier import ReviewStore
    from guardagent.translation.review.page import Selection


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
Host = Annotated[
    Path | None,
    typer.Option("--host", help="The state, facts and messages of the host: a JSON schema or samples of each."),
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
    host: Host = None,
    toolbox: Toolbox = None,
    document_format: Format = None,
    model: ModelName = None,
    prices: options.Prices = None,
    timeout: options.Timeout = None,
    max_tokens: options.MaxTokens = None,
    max_cost: options.MaxCost = None,
    cache: Cache = None,
    parallel: Parallel = 4,
    prompts: options.PromptsFolder = None,
    report: Reports = None,
    as_json: options.Json = False,
) -> None:
    """Translate a policy document into a policy that people can confirm.

    Writes the policy, its cases and its review file. Run it again to resume, to apply answers of the review, and after
    each change of the document. Exit status: 0 everything is settled, 1 questions or findings are open, 3 sentences
    could not be translated.
    """
    from guardagent._support.files import save_text
    from guardagent.translation.pipeline import translate as run
    from guardagent.translation.report_formats import render

    formats = [_format_of(path) for path in report or []]
    if not model:
        raise InputError("no model is configured; expected '--model' or the environment variable 'GUARDAGENT_MODEL'")
    chosen = options.model_of(model, prices, timeout, max_tokens)
    result = run(
        document,
        tools,
        model=chosen or model,
        out=out,
        traces=traces,
        facts=facts,
        host=host,
        toolbox=toolbox or (),
        document_format=document_format,
        max_cost=max_cost,
        cache=cache,
        parallel=parallel,
        prompts=prompts,
        progress=note,
    )
    for path, name in zip(report or [], formats, strict=True):
        save_text(path, render(result.summary, name))
    written = {**result.summary, "written": [str(path) for path in result.written]}
    if result.pending and not as_json:  # the report would repeat it for each sentence
        print_line(result.pending)
    else:
        print_result(written, render(result.summary, "markdown") + _written(result), as_json=as_json)
    raise typer.Exit(result.outcome)


def _format_of(path: Path) -> str:
    """The report format of a file.

    Raises:
        InputError: no format has its suffix, or its folder does not exist.
    """
    from guardagent.translation.report_formats import FORMATS

    names = {FORMATS.load(name).suffix: name for name in FORMATS}
    if path.suffix not in names:
        raise InputError(f"{path}: is not a report; expected a file that ends in {', '.join(sorted(names))}")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder; expected the folder of the report")
    return names[path.suffix]


def _written(result: Translation) -> str:
    """Says what was written, and what to do next."""
    if not result.written:
        return "\nNo policy was written.\n"
    files = "\n".join(f"- {path}" for path in result.written)
    return f"\nWritten:\n\n{files}\n\nNext: guardagent review {result.written[0]}\n"


def review(
    policies: Annotated[Path, typer.Argument(help="The policy file that 'translate' wrote.")],
    *,
    by: Annotated[
        str | None, typer.Option("--by", help="The name of the reviewer (default: that of the login).")
    ] = None,
    only: Annotated[
        str, typer.Option("--only", help="The sentences to show: open (with an open question), unconfirmed or all.")
    ] = "unconfirmed",
    status: Annotated[
        bool, typer.Option("--status", help="Only list these sentences; exit 0 if everything is confirmed, else 1.")
    ] = False,
    answer: Annotated[
        tuple[int, str] | None,
        typer.Option("--answer", help="Only answer a question: its number in '--status', and an answer or own words."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--page", help="Only write everything as an HTML page to this file.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Answer the questions in a browser of this machine, until Ctrl-C.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Review a translated policy: answer its questions, and confirm it sentence by sentence.

    Every answer and confirmation is saved at once beside the policy file. Answers take effect when 'translate' runs
    again.
    """
    from guardagent._support.files import save_text
    from guardagent.translation.review.dossier import ReviewStore, read_dossier
    from guardagent.translation.review.page import review_page, selection, status_lines, status_record

    wanted = selection(only)
    if as_json and not status:
        raise InputError("'--json' without '--status'; expected both")
    if serve:
        _serve_page(ReviewStore(policies, _reviewer(by)), alone=not status and page is None and answer is None)
        return
    if answer is not None:
        question = ReviewStore(policies, _reviewer(by)).answer_number(*answer)
        note(f"answered: {question} {answer[1]!r}; run 'guardagent translate' again to apply it")
    elif not status and page is None:
        _hold_dialogue(policies, by, wanted)
        return
    dossier = read_dossier(policies)
    if page is not None:
        save_text(page, review_page(dossier))
        note(f"wrote {page}")
    if as_json:
        print_json(status_record(dossier, wanted))
    elif status:
        for line in status_lines(dossier):
            print_line(line)
    if status:
        raise typer.Exit(0 if dossier.is_complete else 1)


def _serve_page(store: ReviewStore, *, alone: bool) -> None:
    if not alone:
        raise InputError("'--serve' with '--status', '--page' or '--answer'; expected one of them")
    from guardagent.translation.review.dossier import read_dossier
    from guardagent.translation.review.serving import ReviewServer

    read_dossier(store.policies)  # a wrong file is an error before the page is there
    with ReviewServer(store) as server:
        note(f"the review is at {server.address}; it answers as {store.by!r}. Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def _hold_dialogue(policies: Path, by: str | None, only: Selection) -> None:
    from guardagent.translation.review.dialogue import ReviewDialogue
    from guardagent.translation.review.dossier import ReviewStore

    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("a review needs a terminal; expected '--status', '--answer' or '--page FILE.html' without one")
    ReviewDialogue(ReviewStore(policies, _reviewer(by)), screen()).run(only)


def _reviewer(name: str | None) -> str:
    try:
        reviewer = (getpass.getuser() if name is None else name).strip()
    except (OSError, KeyError):  # the system does not know the user
        reviewer = ""
    if not reviewer or not reviewer.isprintable():
        raise InputError(f"the reviewer's name is {reviewer!r}; expected '--by NAME' with printable characters")
    return reviewer


def import_(
    rule_format: Annotated[str, typer.Argument(metavar="FORMAT", help="The format of the rules, such as cedar.")],
    file: Annotated[Path, typer.Argument(help="The file with the rules.")],
    *,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The policy file to write.")] = None,
    schema: Annotated[Path | None, typer.Option("--schema", help="A Cedar schema, for groups of actions.")] = None,
    target: Annotated[
        str, typer.Option("--target", help="The AgentCore target whose tools the agent calls by their short names.")
    ] = "",
    project: Annotated[
        str, typer.Option("--project", help="The absolute folder of the project, for entries that allow its paths.")
    ] = "",
    on_error: Annotated[
        str, typer.Option("--on-error", help="A forbidding rule that cannot be evaluated: deny, or skip as Cedar does.")
    ] = "deny",
    as_json: options.Json = False,
) -> None:
    """Translate rules of another format into a policy, and show each beside its translation.

    Nothing is dropped: the report names what is stricter or wider, and what cannot be translated. Exit status: 0 no
    translation allows more than its source, 1 one does or is missing.
    """
    from guardagent._support.files import read_text
    from guardagent.translation.imports import import_rules
    from guardagent.translation.imports.report import ImportOptions

    if on_error not in ("deny", "skip"):
        raise UnknownNameError("value of '--on-error'", on_error, ("deny", "skip"))
    text = read_text(schema) if schema else ""
    imported = import_rules(
        rule_format, file, ImportOptions(text, target, "skip" if on_error == "skip" else "deny", project)
    )
    print_import(imported, out, as_json=as_json)


def print_import(imported: ImportReport, out: Path | None, *, as_json: bool) -> NoReturn:
    """Writes the policy of an import, prints its report, and exits."""
    from guardagent._support.files import save_text

    if out is not None:
        save_text(out, imported.policy_text())
    written = f"\nWritten: {out}\n" if out else ""
    print_result({**imported.to_dict(), "written": out and str(out)}, imported.to_markdown() + written, as_json=as_json)
    raise typer.Exit(0 if imported.settled else 1)
