"""The commands `compile` (a guard request becomes a guard program) and `lock` (pins content by its hashes)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from guardagent.cli import options
from guardagent.cli.options import note, print_result
from guardagent.errors import InputError, ModelError

if TYPE_CHECKING:
    from guardagent.models import Model
    from guardagent.programs.compile import CompileTarget


Examples = Annotated[
    str, typer.Option("--examples", help="Labelled runs, one JSON object per line (a file, or - for standard input).")
]
ModelName = Annotated[
    str | None,
    typer.Option("--model", help="The model that writes the program. [env: GUARDAGENT_MODEL]"),
]
ProgramOut = Annotated[
    Path, typer.Option("-o", "--out", help="The program's file; written only if the program passes everything.")
]
Candidates = Annotated[int, typer.Option("--candidates", min=1, help="The number of programs to generate and compare.")]
Rounds = Annotated[int, typer.Option("--rounds", min=0, help="How often the model may repair a failing program.")]
Without = Annotated[
    list[str] | None, typer.Option("--without", help="A transformation of the examples to skip; repeatable.")
]
Inputs = Annotated[
    int, typer.Option("--inputs", min=0, help="The number of random runs on which properties are tested.")
]
NoProperties = Annotated[
    bool, typer.Option("--no-properties", help="Accept a program even if some clauses have no property.")
]
AcceptDispute = Annotated[
    list[str] | None,
    typer.Option("--accept-dispute", help="Accept the model's dispute of an example or of clause-N; repeatable."),
]
Shown = Annotated[
    int, typer.Option("--show", min=0, help="The number of examples shown to the model; at least one of each kind.")
]
HoldOut = Annotated[
    float | None,
    typer.Option(
        "--hold-out",
        help="The share of the examples that the model never sees and that judge the program at the end. "
        "[default: 0.2 of 20 examples or more]",
    ),
]
MaxCost = Annotated[float | None, typer.Option("--max-cost", help="The most that compiling may cost, in US dollars.")]
ReportJson = Annotated[bool, typer.Option("--json", help="Print the report as one JSON object and nothing else.")]


def compile_(
    *,
    examples: Examples,
    out: ProgramOut,
    agent: options.AgentName = None,
    request: options.RequestFile = None,
    specification: options.SpecificationFile = None,
    model: ModelName = None,
    candidates: Candidates = 1,
    rounds: Rounds = 3,
    without: Without = None,
    inputs: Inputs = 2000,
    no_properties: NoProperties = False,
    accept_dispute: AcceptDispute = None,
    shown: Shown = 6,
    hold_out: HoldOut = None,
    toolbox: options.ToolboxFolder = None,
    memory: options.MemoryFolder = None,
    prompts: options.PromptsFolder = None,
    sandbox: options.SandboxName = "auto",
    redact: options.Redact = None,
    prices: options.Prices = None,
    timeout: options.Timeout = None,
    max_tokens: options.MaxTokens = None,
    max_cost: MaxCost = None,
    cache: options.CacheFolder = None,
    as_json: ReportJson = False,
) -> None:
    """Compile a guard request into a program that needs no model.

    The program is tested on the examples, and written only if it passes all tests.
    """
    from guardagent.models.metering import Meter, ResponseCache
    from guardagent.models.prompts import Prompts
    from guardagent.models.redaction import Redactor
    from guardagent.programs.compile import CompileContext, compile_program
    from guardagent.sandbox import load_sandbox

    target = _target(agent, request, specification, toolbox, memory)
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise InputError(f"{out}: cannot be written; expected a file in an existing folder")
    meter = Meter(_model(model, prices, timeout, max_tokens), max_cost, ResponseCache(cache) if cache else None)
    redaction, engine = Redactor(redact or ()).redaction(), load_sandbox(sandbox)
    context = CompileContext(meter, engine, Prompts(prompts), redaction, shown, _print_progress)
    result = compile_program(
        target,
        examples,
        context,
        candidates=candidates,
        rounds=rounds,
        without=without or (),
        inputs=inputs,
        accept_disputes=accept_dispute or (),
        properties=not no_properties,
        hold_out=hold_out,
    )
    if result.program is not None:
        result.program.save(out)
    written = str(out) if result.program is not None else None
    proposed = [] if written else [str(file) for proposal in result.report.proposals for file in proposal.write(out)]
    report = {"written": written, "proposed": proposed, **result.report.to_dict()}
    print_result(report, result.report.to_text() + _closing_message(written, proposed), as_json=as_json)
    raise typer.Exit(0 if written else 1)


def _closing_message(written: str | None, proposed: list[str]) -> str:
    """Says what was written, and what to do next."""
    if written:
        return f"Written to {written}"
    if not proposed:
        return "Nothing was written."
    files = "\n".join(f"  {file}" for file in proposed)
    accept = f"guardagent toolbox accept {proposed[0]} --toolbox FOLDER"
    return (
        f"No program was written. The model proposes a function, with tests; neither has been run:\n{files}\n"
        f"Review it. To accept it, add it to a toolbox and compile again with '--toolbox FOLDER':\n  {accept}"
    )


def _target(
    agent: str | None,
    request: str | None,
    specification: str | None,
    toolbox: list[str] | None,
    memory: str | None,
) -> CompileTarget:
    """Reads request and specification from the files, or else from the known agent."""
    from guardagent._support.files import read_text
    from guardagent.programs.compile import CompileTarget
    from guardagent.programs.memory.agents import read_specification

    if agent is None and request is None:
        raise InputError("nothing to compile; expected '--agent NAME' or '--request FILE'")
    known = options.memory_of(memory).agent(agent) if agent else None
    front: dict[str, Any] = {"required_checks": known.required if known else (), "data": known.data if known else {}}
    text = known.specification if known else ""
    if specification is not None:
        front, text = read_specification(Path(specification))
    tools = options.toolbox_of(toolbox)
    for check in front["required_checks"]:
        check.bind(tools)
    words = read_text(request).strip() if request else known.request if known else ""
    return CompileTarget(words, text, tools, tuple(front["required_checks"]), front["data"], agent or "")


def _model(name: str | None, prices: str | None, timeout: float | None, max_tokens: int | None) -> Model:
    """The model of the option or of the environment.

    Raises:
        ModelError: neither names a model.
    """
    from guardagent.models import load_model

    chosen = name or os.environ.get("GUARDAGENT_MODEL")
    if not chosen:
        raise ModelError("no model is configured; expected '--model' or the environment variable 'GUARDAGENT_MODEL'")
    model = options.model_of(chosen, prices, timeout, max_tokens)
    return load_model(model) if isinstance(model, str) else cast("Model", model)


def _print_progress(message: str) -> None:
    """Prints a message if standard error is a terminal."""
    if sys.stderr.isatty():
        note(message)


# --- lock


LockOut = Annotated[
    Path, typer.Option("-o", "--out", help="The lock file to write; keep it where agents cannot write.")
]
Agents = Annotated[
    list[str] | None, typer.Option("--agent", help="A known agent; repeatable (default: all known agents).")
]
PolicyFiles = Annotated[
    list[Path] | None,
    typer.Option("-p", "--policies", help="A policy file, including the files that it names; repeatable."),
]
Programs = Annotated[list[Path] | None, typer.Option("--program", help="A single guard program; repeatable.")]


def lock(
    *,
    out: LockOut,
    agent: Agents = None,
    memory: options.MemoryFolder = None,
    toolbox: options.ToolboxFolder = None,
    prompts: options.PromptsFolder = None,
    policies: PolicyFiles = None,
    program: Programs = None,
    require_review: options.RequireReview = False,
    as_json: options.Json = False,
) -> None:
    """Write a lock file with the hashes of all content that may run.

    With '--locked FILE', other commands refuse any other content. Nothing is run here. A policy with an incomplete
    review is not locked; with '--require-review', neither is one without a review.
    """
    from guardagent.models.prompts import Prompts
    from guardagent.policy.file.policy_file import policy_contents
    from guardagent.programs import lock as locks
    from guardagent.programs.program_file import fresh_program

    if require_review and not policies:
        raise InputError("'--require-review' is for policies; expected '--policies FILE'")
    tools, known = options.toolbox_of(toolbox), options.memory_of(memory)
    for path in program or []:
        fresh_program(path, tools)
    contents = [
        *locks.agents(*(known.agent(name).path for name in (agent or known.names()))),
        *locks.programs(*(program or [])),
        *locks.toolboxes(tools),
        *locks.prompts(*Prompts(prompts).effective_files),
        *policy_contents(*(policies or [])),
    ]
    locked = locks.Lock.of(contents, out)
    for path in policies or []:
        _require_review(path, missing_too=require_review)
    locked.require(contents)  # the reviewed files are those that were hashed
    try:
        out.write_text(locked.to_json(), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}; expected a file in a writable folder") from None
    counts = {kind: sum(map(len, names.values())) for kind, names in sorted(locked.files.items())}
    text = f"{out}: {', '.join(f'{kind} {count}' for kind, count in counts.items())}"
    print_result({"lock": str(out), "files": counts}, text, as_json=as_json)


def _require_review(path: Path, *, missing_too: bool) -> None:
    from guardagent.policy.file.policy_file import read_policy_file
    from guardagent.policy.review import require_review, review_path

    review = review_path(path)
    if missing_too or review.exists():
        require_review(read_policy_file(path), review)
