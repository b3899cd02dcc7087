"""The inputs of a translation, apart from the model, and the strings made from them for prompts.

The document becomes lines with the numbers of the sentences, under their headings. All requests of a translation share
the first part of their prompts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from guardagent.errors import InputError
from guardagent.policy.documents import PolicyDocument, Sentence, read_document
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.policy.review.record import NeededFact
from guardagent.translation.requests import Request
from guardagent.translation.samples import (
    FactDescription,
    TraceSamples,
    facts_of_host,
    read_fact_descriptions,
    read_host,
    read_samples,
    render,
)
from guardagent.translation.tools import ToolSchema, read_tools

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TranslationContext:
    """The inputs of a translation.

    Attributes:
        document: the sentences.
        tools: the tools that the agent has.
        samples: what recorded calls show of arguments, outputs, state and facts, and what the host describes; None
            without `--traces` and `--host`.
        facts: the facts that the host gives, from `--facts`.
        toolbox: Python files with functions that rules may call.
        failed_output: the RE2 pattern of outputs of failed calls; empty if it is unknown.
        folder: the folder of the policy file; paths in it are relative to it.
        path: the file of the document.
        digest: the SHA-256 of its bytes.
        traces: the file of recorded calls, if there is one.
        memory: the results so far, for `once`. A context that another one replaces shares them.
    """

    document: PolicyDocument
    tools: tuple[ToolSchema, ...]
    samples: TraceSamples | None = None
    facts: tuple[FactDescription, ...] = ()
    toolbox: tuple[Path, ...] = ()
    failed_output: str = ""
    folder: Path = field(default_factory=Path)
    path: Path = field(default_factory=Path)
    digest: str = ""
    traces: Path | None = None
    memory: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def frame(self) -> Mapping[str, Any]:
        """The keys of a policy file that do not depend on a draft."""
        keys: dict[str, Any] = {"version": 1, "tools": [tool.name for tool in self.tools]}
        if self.toolbox:
            keys["toolbox"] = [str(path) for path in self.toolbox]
        if self.failed_output:
            keys["failed_output"] = self.failed_output
        return keys

    def load(self, content: Mapping[str, Any]) -> Policies:
        """Loads the content of a policy file; the same content once.

        Raises:
            InputError: it is invalid; the message has the path of keys.
        """
        key = "policies", repr(content), self.folder
        return self.once(key, lambda: load_policies(data=content, folder=self.folder))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the result of a key that decides it, computed on its first use. An exception is not a result.

        Threads may compute a result twice.
        """
        if key not in self.memory:
            self.memory[key] = make()
        known: T = self.memory[key]
        return known

    def completed(self, facts: Iterable[NeededFact], failed_output: str) -> TranslationContext:
        """These inputs with more facts, and with a pattern of failed outputs. The operator's own have precedence."""
        known = {fact.name for fact in self.facts}
        new = (FactDescription(fact.name, fact.description) for fact in facts if fact.name not in known)
        return replace(self, facts=(*self.facts, *new), failed_output=self.failed_output or failed_output)

    def request(self, template: str, rulings: Mapping[str, str], data: Mapping[str, str], **trusted: str) -> Request:
        """Returns the request for a template: its own data, some of the owner's answers, and the inputs."""
        common = {"rulings": "\n".join(rulings.values()), "problem": "", "answer": ""}
        shared = self.once("shared data", lambda: shared_data(self))
        return Request(template, {**common, **data}, {**shared, "facts": facts_text(self)}, trusted)

    def sentence(self, number: int) -> Sentence:
        """Returns the sentence of a number, from 1."""
        return self.document.sentences[number - 1]

    def first_number(self, number: int) -> int:
        """Returns the number of the first sentence that is identical with one: it is translated, and counts for all."""
        return self.document.first_numbers[self.sentence(number).hash]


def read_inputs(
    document: Path | str,
    tools: Any,
    folder: Path,
    *,
    traces: Path | str | None = None,
    facts: Path | str | None = None,
    host: Path | str | None = None,
    toolbox: Sequence[Path | str] = (),
    document_format: str | None = None,
) -> TranslationContext:
    """Reads everything that a translation is given.

    Args:
        document: the file of the policy document.
        tools: as for `read_tools`.
        folder: the folder of the policy file.
        traces: a file of recorded calls.
        facts: a file with descriptions of facts.
        host: a file with the state, the facts and the messages of the host.
        toolbox: Python files with functions for rules; inside the folder of the policy file.
        document_format: the format of the document.

    Raises:
        InputError: a file is missing or invalid; the message says which.
    """
    path = Path(document)
    if str(document) == "-":
        raise InputError("the document is '-'; expected a file, since its hash is kept for the review")
    digest = _digest(path)
    described = read_host(host) if host is not None else {}
    samples = read_samples(traces) if traces is not None else TraceSamples(()) if described else None
    if samples is not None:
        samples.add_host(described)
    stated = read_fact_descriptions(facts) if facts is not None else ()
    names = {fact.name for fact in stated}
    context = TranslationContext(
        document=read_document(path, document_format),
        tools=read_tools(tools),
        samples=samples,
        facts=(*stated, *(fact for fact in facts_of_host(described) if fact.name not in names)),
        toolbox=tuple(_inside(Path(path), folder) for path in toolbox),
        folder=folder.absolute(),
        path=path,
        digest=digest,
        traces=Path(traces) if traces is not None else None,
    )
    if _digest(path) != digest:
        raise InputError(f"{path}: changed while it was read; run the translation again")
    return context


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


# --- strings for prompts


def sentences_text(sentences: Iterable[Sentence]) -> str:
    """Returns some sentences, each with its headings and the text that it needs to be understood."""
    return "\n\n".join("\n".join(_with_context(sentence)) for sentence in sentences)


def _line(sentence: Sentence) -> str:
    text = " ".join(sentence.text.split())
    if sentence.kind == "heading":
        return f"[{sentence.number}] {'#' * (len(sentence.path) + 1)} {text}"
    return f"[{sentence.number}] {'- ' if sentence.kind == 'item' else ''}{text}"


def _with_context(sentence: Sentence) -> Iterator[str]:
    if sentence.path:
        yield f"under: {' > '.join(sentence.path)}"
    for context_text in sentence.context:
        yield f"after: {' '.join(context_text.split())}"
    yield f"[{sentence.number}] {' '.join(sentence.text.split())}"


MOST_SAMPLES = 30_000


def shared_data(context: TranslationContext) -> dict[str, str]:
    """Returns the document, the tools, the samples and the operator's functions as strings.

    Raises:
        InputError: a file of functions cannot be read.
    """
    return {
        "document": "\n".join(map(_line, context.document.sentences)),
        "tools": "\n".join(map(_tool, context.tools)),
        "samples": render(context.samples, MOST_SAMPLES) if context.samples else "",
        "functions": _functions(context),
    }


def facts_text(context: TranslationContext) -> str:
    """Returns the facts that the host gives, one per line."""
    return "\n".join(
        f"{fact.name}{f' ({fact.type})' if fact.type else ''}{f': {fact.description}' if fact.description else ''}"
        for fact in context.facts
    )


def _tool(tool: ToolSchema) -> str:
    shown: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    if tool.output_schema is not None:
        shown["output"] = tool.output_schema
    return json.dumps(shown, ensure_ascii=False, default=str)


def _functions(context: TranslationContext) -> str:
    if not context.toolbox:
        return ""
    from guardagent.sandbox.toolbox import Toolbox

    return "\n\n".join(tool.describe() for tool in Toolbox(list(context.toolbox)).values())
