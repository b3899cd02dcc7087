"""The translation of a policy document: reads the inputs, runs the stages, and writes the files.

The drafts of sentences with open questions are kept until there are answers, so that nothing is drafted twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from guardagent._support.files import folder_lock, parse_json, read_text, save_text, shared_folder_lock
from guardagent._support.json_values import plain, record_of
from guardagent.errors import ContentError, InputError
from guardagent.models import Model, load_model
from guardagent.models.metering import Meter, ResponseCache
from guardagent.models.prompts import Prompts
from guardagent.policy.documents import compare
from guardagent.policy.load import load_policies
from guardagent.policy.review import read_review, review_path, write_review
from guardagent.policy.review.record import Review
from guardagent.translation.assembly import PolicyAssembly, assemble
from guardagent.translation.change import Kept, kept, require_same_document, require_translation, with_edits
from guardagent.translation.context import TranslationContext, read_inputs
from guardagent.translation.examination import examine_policy
from guardagent.translation.readings.group_reading import SentenceGroup
from guardagent.translation.recording import Recording
from guardagent.translation.report import DocumentChanges, outcome, summarize
from guardagent.translation.requests import ModelRequests
from guardagent.translation.stages import Progress, Stages, TranslationState, kept_confirmations

# --- drafts with open questions

_FILE = "open-groups.json"


def save_groups(folder: Path, groups: Iterable[SentenceGroup], context: TranslationContext) -> None:
    """Writes groups to a folder, with the hashes of all sentences, as their numbers change with the document.

    Raises:
        InputError: the file cannot be written.
    """
    records = [
        {"group": plain(group), "hashes": {number: context.sentence(number).hash for number in group.mentioned}}
        for group in groups
    ]
    save_text(folder / _FILE, json.dumps(records, ensure_ascii=False, indent=1))


def load_groups(folder: Path, context: TranslationContext) -> tuple[SentenceGroup, ...]:
    """Reads the groups of a folder whose sentences are all in the document, with their present numbers.

    Raises:
        ContentError: the file is not a record of groups.
    """
    path = folder / _FILE
    if not path.exists():
        return ()
    numbers = context.document.first_numbers
    records = parse_json(read_text(path), path)
    try:
        there = [record for record in records if {*record["hashes"].values()} <= numbers.keys()]
        groups = [
            record_of(SentenceGroup, record["group"]).renumbered(
                {at: numbers[name] for at, name in record["hashes"].items()}
            )
            for record in there
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ContentError(f"is not a record of open questions ({error}); delete it", path) from None
    return tuple(groups)


# --- the translation


@dataclass(frozen=True, slots=True)
class Translation:
    """The result of a translation.

    Attributes:
        review: the record of all sentences and rules.
        summary: the content of the report, as JSON values.
        written: the files that were written, the policy first; empty if no sentence has a rule.
        outcome: the exit status: 0 settled, 1 questions or findings are open, 3 sentences could not be translated.
        pending: for a model whose answers a person writes: how many are missing, and the next one.
    """

    review: Review
    summary: Mapping[str, Any]
    written: tuple[Path, ...]
    outcome: Literal[0, 1, 3]
    pending: str = ""


def translate(
    document: Path | str,
    tools: Any,
    *,
    model: Model | str,
    out: Path | str,
    traces: Path | str | None = None,
    facts: Path | str | None = None,
    host: Path | str | None = None,
    toolbox: Sequence[Path | str] = (),
    document_format: str | None = None,
    max_cost: float | None = None,
    cache: Path | str | None = None,
    parallel: int = 4,
    prompts: Path | str | None = None,
    progress: Progress = lambda _: None,
) -> Translation:
    """Translates a policy document into a policy file, its cases and a review file.

    The model's answers are kept in a folder beside the policy file. So an interrupted translation goes on where it was,
    and one that runs again applies the answers of the review, or translates the changed sentences of the document.

    Args:
        document: a Markdown, HTML, text or PDF file.
        tools: the tools of the agent: a JSON file, `module:attribute`, `mcp:COMMAND`, or the tools themselves:
            functions, objects, or the value of a JSON file.
        model: the model, or its name.
        out: the policy file. An existing one is only replaced if it comes from a translation.
        traces: a JSON Lines file of recorded conversations or cases.
        facts: a YAML or JSON file: the facts that the host gives, with descriptions.
        host: a YAML or JSON file: `state`, `facts` and `messages` of the host, each as a JSON schema or samples.
        toolbox: Python files with functions that rules may call, in the folder of the policy file.
        document_format: 'markdown', 'html', 'text' or 'pdf'; without it, content and suffix decide.
        max_cost: US dollars that the translation may cost, with its earlier runs.
        cache: the folder of the model's answers; without it, `out` with the suffix `.answers`.
        parallel: simultaneous model calls; with `max_cost`, one.
        prompts: a folder with templates that replace the shipped ones.
        progress: takes a line for each stage.

    Raises:
        InputError: an input is missing or invalid, or the policy file does not come from a translation.
    """
    path = Path(out)
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder; expected the folder of the policy file")
    if path.suffix not in (".yaml", ".yml"):
        raise InputError(f"{path}: expected a policy file that ends in '.yaml'")
    if max_cost is not None and not max_cost >= 0:
        raise InputError(f"the cap on the cost is {max_cost}; expected an amount in US dollars")
    require_translation(path)
    loaded = load_model(model) if isinstance(model, str) else model
    context = read_inputs(
        document,
        tools,
        path.parent,
        traces=traces,
        facts=facts,
        host=host,
        toolbox=toolbox,
        document_format=document_format,
    )
    answers = Path(cache) if cache is not None else path.with_suffix(".answers")
    meter = Meter(loaded, max_cost, ResponseCache(answers), counts_cached=True)
    requests = ModelRequests(meter, Prompts(prompts), parallel=parallel)
    with folder_lock(answers):
        translation = _Run(path, answers, context, requests, progress).run()
    return replace(translation, pending=getattr(loaded, "pending", "")) if translation.outcome == 3 else translation


class _Run:
    """One run of a translation, alone at its files."""

    def __init__(
        self, path: Path, folder: Path, context: TranslationContext, model: ModelRequests, progress: Progress
    ) -> None:
        self._path, self._folder, self._model, self._progress = path, folder, model, progress
        self._files = self._read_files()
        everything = Kept(tuple(sentence.number for sentence in context.document.sentences))
        self._state = self._begun(context) if path.exists() else TranslationState(context, everything)

    def _begun(self, context: TranslationContext) -> TranslationState:
        """The translation of a document that was translated before."""
        previous, document = read_review(review_path(self._path)), context.document
        require_same_document(previous, document, os.path.relpath(context.path, self._path.parent), self._path)
        again = [answer.question for answer in previous.answers if not answer.applied]
        standing = with_edits(kept(previous, self._path, document, again), load_policies(self._path))
        # A later survey may see no failure: the pattern in the policy file stays.
        context = context.completed(previous.facts, standing.lines.content.get("failed_output", ""))
        return TranslationState(context, standing, previous)

    def run(self) -> Translation:
        state, previous = self._state, self._state.standing.lines
        unsettled = load_groups(self._folder, state.context) if previous.content else ()
        translate = {*state.standing.translate}
        Stages(state, self._model, self._progress).run([each for each in unsettled if {*each.sentences} <= translate])
        self._progress("Assembly and examination of the policy")
        drafts = (*state.standing.drafts, *(reading.draft for reading in state.readings))
        title = f"Translated from {state.context.path.name}; see {review_path(self._path).name}"
        assembly = state.assembly = assemble(drafts, state.context, title=title, previous=previous)
        if assembly.text:
            cases = {rule.id: rule.cases for rule in assembly.rules}
            state.problems = examine_policy(assembly.text, state.context, cases, state.context.traces)
        review = kept_confirmations(state.previous, Recording(state).review(self._model.usage, self._path.parent))
        if state.is_interrupted or not assembly.text:
            return Translation(review, summarize(review), (), 3 if state.is_interrupted else outcome(review) or 1)
        left = (group for group in unsettled if not translate.intersection(group.sentences))
        new = (reading.group for reading in state.readings if reading.readings == "open")
        save_groups(self._folder, (*left, *new), state.context)
        is_new = bool(previous.content) and self._path.read_text(encoding="utf-8") != assembly.text
        before = self._path.with_suffix(f".previous{self._path.suffix}") if is_new else None
        with shared_folder_lock(self._path.parent):  # so that nobody answers or confirms in between
            written = self._write(assembly, review, before)
        changes = self._changes(before, review) if previous.content else None
        return Translation(review, summarize(review, changes), written, outcome(review))

    # --- files

    def _write(self, assembly: PolicyAssembly, review: Review, before: Path | None) -> tuple[Path, ...]:
        """Writes the files, the policy and its review one right after the other.

        A run that is killed in between leaves a review without a policy, or a policy that is newer than its review. The
        next run makes a whole of either.
        """
        if self._read_files() != self._files:
            raise InputError(f"{self._path}: it or its review changed during the translation; run it again")
        files = [
            (self._path.with_suffix(".cases.jsonl"), assembly.cases),
            (self._path.with_suffix(".traces.jsonl"), assembly.traces),
        ]
        for path, text in files:
            if text:
                save_text(path, text)
            else:
                path.unlink(missing_ok=True)
        if before is not None:
            save_text(before, self._path.read_text(encoding="utf-8"))
        if not self._path.exists():
            write_review(review_path(self._path), review)
        save_text(self._path, assembly.text)
        write_review(review_path(self._path), review)
        return (self._path, review_path(self._path), *(path for path, text in files if text))

    def _read_files(self) -> list[bytes | None]:
        """The policy and its review as they are: people edit and review them during the translation."""
        return [path.read_bytes() if path.exists() else None for path in (self._path, review_path(self._path))]

    def _changes(self, before: Path | None, review: Review) -> DocumentChanges:
        state = self._state
        earlier = {answer.question for answer in state.previous.answers if answer.applied}
        comparison = compare(state.previous.sentences, state.context.document.sentences)
        return DocumentChanges(
            comparison.changed,
            comparison.added,
            comparison.removed,
            state.standing.fallen,
            tuple(rule.id for draft in state.standing.drafts for rule in draft.rules),
            str(self._path),
            str(before) if before else "",
            tuple(answer.question for answer in review.answers if answer.applied and answer.question not in earlier),
        )
