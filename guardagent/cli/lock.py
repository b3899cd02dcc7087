"""The command `lock`: pins content by its hashes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guardagent.cli.options import Json, MemoryFolder, PromptsFolder, RequireReview, ToolboxFolder
from guardagent.cli.output import print_json, print_line
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.programs.lock import Content

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
    memory: MemoryFolder = None,
    toolbox: ToolboxFolder = None,
    prompts: PromptsFolder = None,
    policies: PolicyFiles = None,
    program: Programs = None,
    require_review: RequireReview = False,
    as_json: Json = False,
) -> None:
    """Write a lock file with the hashes of all content that may run.

    With '--locked FILE', other commands refuse any other content. Nothing is run here. A policy with an incomplete
    review is not locked; with '--require-review', neither is one without a review.
    """
    from guardagent.programs.lock import Lock

    if require_review and not policies:
        raise InputError("'--require-review' is for policies; expected '--policies FILE'")
    contents = _contents(agent, memory, toolbox, prompts, policies or [], program or [])
    locked = Lock.of(contents, out)
    for path in policies or []:
        _require_review(path, missing_too=require_review)
    locked.require(contents)  # the reviewed files are those that were hashed
    try:
        out.write_text(locked.to_json(), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}; expected a file in a writable folder") from None
    counts = {kind: sum(map(len, names.values())) for kind, names in sorted(locked.files.items())}
    if as_json:
        print_json({"lock": str(out), "files": counts})
    else:
        print_line(f"{out}: {', '.join(f'{kind} {count}' for kind, count in counts.items())}")


def _require_review(path: Path, *, missing_too: bool) -> None:
    from guardagent.policy.file.policy_file import read_policy_file
    from guardagent.policy.review import require_review, review_path

    review = review_path(path)
    if missing_too or review.exists():
        require_review(read_policy_file(path), review)


def _contents(
    agent: list[str] | None,
    memory: str | None,
    toolbox: list[str] | None,
    prompts: str | None,
    policies: list[Path],
    program: list[Path],
) -> list[Content]:
    """All named files, each validated."""
    from guardagent.models.prompts import Prompts
    from guardagent.policy.file.inclusions import policy_contents as files_of
    from guardagent.programs import lock
    from guardagent.programs.memory.agents import Memory
    from guardagent.programs.program_file import fresh_program
    from guardagent.sandbox.toolbox import Toolbox

    tools, known = Toolbox.load(*(toolbox or [])), Memory(*([memory] if memory else []))
    for path in program:
        fresh_program(path, tools)
    return [
        *lock.agents(*(known.agent(name).path for name in (agent or known.names()))),
        *lock.programs(*program),
        *lock.toolboxes(tools),
        *lock.prompts(*Prompts(prompts).effective_files),
        *files_of(*policies),
    ]
