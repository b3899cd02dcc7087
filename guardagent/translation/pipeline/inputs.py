"""Reads the inputs of a translation."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent.errors import GuardError, InputError
from guardagent.policy.documents import read_document
from guardagent.translation.context import TranslationContext
from guardagent.translation.samples import read_samples
from guardagent.translation.samples_pieces.facts import read_fact_descriptions
from guardagent.translation.tools import ToolSchema
from guardagent.translation.tools_pieces.reader import read_tools


@dataclass(frozen=True, slots=True)
class TranslationInputs:
    """The inputs as read.

    Attributes:
        path: the document.
        digest: the SHA-256 of its bytes.
        traces: the file of recorded calls, if there is one.
    """

    context: TranslationContext
    path: Path
    digest: str
    traces: Path | None


def read_inputs(
    document: Path | str,
    tools: Any,
    folder: Path,
    *,
    traces: Path | str | None = None,
    facts: Path | str | None = None,
    toolbox: Sequence[Path | str] = (),
    document_format: str | None = None,
) -> TranslationInputs:
    """Reads everything that a translation is given.

    Args:
        document: the file of the policy document.
        tools: as for `read_tools`.
        folder: the folder of the policy file.
        traces: a file of recorded calls.
        facts: a file with descriptions of facts.
        toolbox: Python files with functions for rules; inside the folder of the policy file.
        document_format: the format of the document.

    Raises:
        InputError: a file is missing or invalid; the message says which.
    """
    path = Path(document)
    if str(document) == "-":
        raise InputError("the document is '-'; expected a file, since its hash is kept for the review")
    digest = _digest(path)
    context = TranslationContext(
        document=read_document(path, document_format),
        tools=_tools(tools),
        samples=read_samples(traces) if traces is not None else None,
        facts=read_fact_descriptions(facts) if facts is not None else (),
        toolbox=tuple(_inside(Path(one), folder) for one in toolbox),
        folder=folder.absolute(),
    )
    if _digest(path) != digest:
        raise InputError(f"{path}: changed while it was read; run the translation again")
    return TranslationInputs(context, path, digest, Path(traces) if traces is not None else None)


def _tools(source: Any) -> tuple[ToolSchema, ...]:
    """The tools of the agent.

    Raises:
        InputError: they cannot be read. A server that lists none is a wrong input, as is one that does not start.
    """
    try:
        return read_tools(source)
    except InputError:
        raise
    except GuardError as error:
        reason = str(error).removesuffix("; nothing is guarded")  # a translation guards nothing anyway
        raise InputError(f"tools {source!r}: {reason}; expected a server that lists its tools") from None


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; expected a policy document") from None


def _inside(path: Path, folder: Path) -> Path:
    """The path of a toolbox file relative to the folder of the policy file.

    Raises:
        InputError: it lies elsewhere; a policy file names only files beside it.
    """
    try:
        return path.absolute().relative_to(folder.absolute())
    except ValueError:
        raise InputError(f"{path}: is outside of {folder}; expected a file in the folder of the policy file") from None
