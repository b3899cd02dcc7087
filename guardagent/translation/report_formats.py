"""The formats of the report on a translation, and its sections for people. Decisions that are missing come first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from guardagent._support.plugins import Plugins
from guardagent._support.sections import Quoted, ReportSection, ReportTable, html, markdown, percent
from guardagent.translation.report import (
    CoverageFigure,
    DocumentChanges,
    QuestionRow,
    Reference,
    SentenceRow,
    TranslationSummary,
)


@dataclass(frozen=True, slots=True)
class TranslationReportFormat:
    """A format.

    Attributes:
        name: the name for people.
        suffix: the suffix of files in this format.
        render: writes the report.
    """

    name: str
    suffix: str
    render: Callable[[TranslationSummary], str]


def render(summary: TranslationSummary, format: str) -> str:  # noqa: A002 - as the option is called
    """Returns the report in one of `FORMATS`.

    Raises:
        UnknownNameError: the format does not exist.
    """
    text: str = FORMATS.load(format).render(summary)
    return text


def _as_html(summary: TranslationSummary) -> str:
    """One page, which loads nothing and runs nothing."""
    return html(_TITLE, _warning(summary), _sections(summary))


def _as_json(summary: TranslationSummary) -> str:
    """One JSON object: the attributes of `TranslationSummary`, by their names."""
    # ASCII alone: the strings of others reach no terminal as control characters.
    return f"{json.dumps(summary.to_dict(), indent=2)}\n"


def _as_markdown(summary: TranslationSummary) -> str:
    return markdown(_TITLE, _warning(summary), _sections(summary))


def _format_of_module(module: Any) -> TranslationReportFormat:
    """The format of another package's module."""
    return TranslationReportFormat(module.NAME, module.SUFFIX, module.render)


FORMATS = Plugins(
    "translation report",
    "",
    ("NAME", "SUFFIX", "render"),
    "guardagent.translation_reports",
    members={
        "html": TranslationReportFormat("HTML", ".html", _as_html),
        "json": TranslationReportFormat("JSON", ".json", _as_json),
        "markdown": TranslationReportFormat("Markdown", ".md", _as_markdown),
    },
    adapt=_format_of_module,
)

_TITLE = "Translation report"
_UNREAD = "unread_argument"
_READINGS = {
    "agree": "its cases were read as its author expects",
    "answered": "decided by an answer",
    "edited": "written by a person",
    "single": "no second reader has seen its cases",
    "open": "a question is open",
}
_FATES = {
    "rule": "with a rule",
    "definition": "definition, part of other rules",
    "fact": "fact from the host",
    "implied": "implied by other sentences",
    "not_enforceable": "not enforceable by a rule",
    "open": "undecided",
}


def _warning(summary: TranslationSummary) -> str:
    """The sentence on missing decisions; empty if there are none."""
    coverage = summary.coverage
    counts = {
        "undecided sentence": coverage.undecided.count,
        "open question": len(summary.open_questions),
        "blocking finding": len(summary.blocking),
        "open sentence": coverage.open.count,
        "open rule": sum(rule.standing == "open" for rule in summary.rules),
    }
    counts_text = ", ".join(f"{count:,} {noun}{'s' * (count > 1)}" for noun, count in counts.items() if count)
    word = {0: "", 1: "NOT SETTLED", 3: "INCOMPLETE"}[summary.outcome]
    return f"{word}: {counts_text}." if word else ""


def _sections(summary: TranslationSummary) -> Iterator[ReportSection]:
    """Yields the sections below the title and the warning."""
    yield _overview(summary)
    yield _coverage(summary)
    if summary.changes is not None:
        yield from _changes(summary.changes)
    yield from _questions(summary)
    yield _findings(summary)
    yield from _sentences(summary)
    yield _facts(summary)
    yield _rules(summary)
    yield _signatures(summary)
    yield _cost(summary)


def _overview(summary: TranslationSummary) -> ReportSection:
    coverage = summary.coverage
    standings = Counter(rule.standing for rule in summary.rules)
    rows = [("sentences", f"{coverage.sentences:,}")]
    rows += [(f"- {_FATES[fate]}", f"{count:,}") for fate, count in coverage.fates.items()]
    rows += [("headings, not counted above", f"{coverage.headings:,}"), ("rules", f"{len(summary.rules):,}")]
    rows += [(f"- {name}", f"{standings[name]:,}") for name in ("settled", "single", "open")]
    document = ("Document: ", Quoted(summary.document), ", SHA-256 ", Quoted(summary.document_hash))
    settled = () if summary.outcome else (("Every question is answered, and no finding blocks.",),)
    return ReportSection("Overview", (document, *settled), ReportTable(("figure", "value"), tuple(rows)))


def _coverage(summary: TranslationSummary) -> ReportSection:
    coverage = summary.coverage
    note = (
        f"A rule can enforce {coverage.enforceable:,} of {coverage.sentences:,} sentences. A sentence is settled if "
        "a reader of the document took their cases as the author of the rules did or a person decided, single if "
        "no second reader has seen them, and open while a question or a blocking finding about it is open."
    )
    figures = {
        "with a rule": coverage.covered,
        "- settled": coverage.settled,
        "- single": coverage.single,
        "- open": coverage.open,
        "undecided": coverage.undecided,
        "with a part that no rule covers": coverage.partial,
    }
    rows = tuple((name, *_shares(figure)) for name, figure in figures.items())
    head = ("standing", "sentences", "of all", "of the enforceable")
    return ReportSection("Coverage", ((note,),), ReportTable(head, rows))


def _shares(figure: CoverageFigure) -> tuple[str, ...]:
    shares = (figure.of_sentences, figure.of_enforceable)
    return f"{figure.count:,}", *("-" if share is None else percent(share) for share in shares)


def _changes(changes: DocumentChanges) -> Iterator[ReportSection]:
    changed = (
        ("changed", str(change.new.number), Quoted(change.old.text), Quoted(change.new.text))
        for change in changes.changed
    )
    added = (("added", str(sentence.number), "", Quoted(sentence.text)) for sentence in changes.added)
    removed = (("removed", str(sentence.number), Quoted(sentence.text), "") for sentence in changes.removed)
    notes = (
        ("Answers applied: ", *_ids(changes.answers)),
        ("Rules written again or removed: ", *_ids(changes.fallen)),
        ("Rules kept: ", *_ids(changes.kept)),
        ("To see what recorded calls would now get: ", Quoted(changes.replay)),
    )
    rows = (*changed, *added, *removed)
    table = _table("change", "number", "before", "now", rows=rows)
    yield ReportSection("Changes since the last version", notes, table)


def _questions(summary: TranslationSummary) -> Iterator[ReportSection]:
    waiting = summary.open_questions
    yield ReportSection("Open questions", () if waiting else (("None.",),))
    for question in waiting:
        yield _question(question)
    if answered := summary.questions[len(waiting) :]:
        yield ReportSection("Answered questions")
        for question in answered:
            yield _question(question)


def _question(row: QuestionRow) -> ReportSection:
    about = (
        "Id: ",
        Quoted(row.id),
        "; sentences: ",
        _numbers(row.sentences),
        "; rules: ",
        *_ids(row.rules),
    )
    chosen = ("choice ", str(row.answer + 1)) if row.answer is not None else ("in own words: ", Quoted(row.words or ""))
    answer = ("Answer: ", *chosen, ", by ", Quoted(row.by or ""), " at ", Quoted(row.at or ""))
    rows = tuple(
        (str(at), Quoted(choice.answer), {True: "yes", False: "no", None: "-"}[choice.allowed], Quoted(choice.reading))
        for at, choice in enumerate(row.choices, 1)
    )
    table = _table("choice", "answer", "the call may run", "reading", rows=rows)
    return ReportSection(Quoted(row.text), (about,) if row.by is None else (about, answer), table, level=3)


def _findings(summary: TranslationSummary) -> ReportSection:
    rows = tuple(
        (
            "blocking" if finding.blocking else "note", Quoted(finding.kind), Quoted(finding.message),
            _numbers(finding.sentences), _joined(finding.rules), Quoted(finding.example),
        )
        for finding in summary.findings
        if finding.kind != _UNREAD
    )  # fmt: skip
    table = _table("level", "kind", "finding", "sentences", "rules", "example", rows=rows)
    return ReportSection("Findings", () if rows else (("None.",),), table)


def _sentences(summary: TranslationSummary) -> Iterator[ReportSection]:
    """Yields the sentences by fate: first those that no rule enforces, since somebody else has to."""
    counted = [sentence for sentence in summary.sentences if not sentence.heading]
    by_fate = {fate: [sentence for sentence in counted if sentence.fate == fate] for fate in _FATES}
    yield _listing("Undecided sentences", by_fate["open"])
    note = "The operator has to enforce these by other means."
    yield _listing("Sentences that no rule can enforce", by_fate["not_enforceable"], note=note)
    yield from _unread_arguments(summary)
    yield _listing("Sentences with rules", by_fate["rule"])
    others = [sentence for sentence in counted if sentence.fate in ("definition", "fact", "implied")]
    yield _listing("Other sentences", others, fate=True)
    yield _listing(
        "Headings without a rule", [sentence for sentence in summary.sentences if sentence.heading], fate=True
    )


def _unread_arguments(summary: TranslationSummary) -> Iterator[ReportSection]:
    """Yields the arguments of writing tools that no rule reads, if there are any."""
    if rows := tuple((Quoted(finding.message),) for finding in summary.findings if finding.kind == _UNREAD):
        note = "The document says nothing that limits them. Decide whether it should."
        yield ReportSection("Arguments that no rule reads", ((note,),), _table("argument", rows=rows))


def _listing(title: str, sentences: Sequence[SentenceRow], *, note: str = "", fate: bool = False) -> ReportSection:
    """The sentences as a table with the columns that have content."""
    rows = [
        (
            str(sentence.number),
            Quoted(sentence.text),
            _FATES[sentence.fate] if fate else "",
            sentence.standing or "",
            _joined(sentence.rules),
            Quoted(sentence.reason),
            Quoted(sentence.place),
        )
        for sentence in sentences
    ]
    head = ("number", "sentence", "fate", "standing", "rules", "reason, or the part that no rule covers", "place")
    kept = [at for at in range(len(head)) if any(row[at] for row in rows)]
    table = _table(*(head[at] for at in kept), rows=tuple(tuple(row[at] for at in kept) for row in rows))
    text = note if rows else "None."
    return ReportSection(title, ((text,),) if text else (), table)


def _facts(summary: TranslationSummary) -> ReportSection:
    rows = tuple((Quoted(fact.name), Quoted(fact.description)) for fact in summary.facts)
    note = "The rules read these facts. A call is denied while the host does not give them." if rows else "None."
    return ReportSection("Facts from the host", ((note,),), _table("fact", "description", rows=rows))


def _rules(summary: TranslationSummary) -> ReportSection:
    """A row for each sentence that a rule rests on."""
    rows = tuple(
        (Quoted(rule.id), _numbers([ground.sentence]), Quoted(ground.quote), _READINGS[rule.readings], rule.standing)
        if ground
        else (Quoted(rule.id), "none", "-", _READINGS[rule.readings], rule.standing)
        for rule in summary.rules
        for ground in (rule.grounds or [None])
    )
    table = _table("rule", "sentence", "quoted words", "readings", "standing", rows=rows)
    return ReportSection("Rules and their grounds", () if rows else (("None.",),), table)


def _signatures(summary: TranslationSummary) -> ReportSection:
    signed = summary.signatures
    left = len(signed.sentences) + len(signed.rules)
    void = f" Void, as their content has changed: {signed.void:,}." if signed.void else ""
    total = f"{signed.confirmed + left:,} sentences and rules without a sentence"
    notes = (
        (f"Confirmed: {signed.confirmed:,} of {total}.{void}",),
        ("Not confirmed: sentences: ", _numbers(signed.sentences), "; rules: ", *_ids(signed.rules)),
    )
    rows = tuple((Quoted(name), f"{count:,}") for name, count in signed.by.items())
    return ReportSection("Confirmations", notes if left else notes[:1], ReportTable(("by", "confirmed"), rows))


def _cost(summary: TranslationSummary) -> ReportSection:
    cost = summary.cost
    calls = "-" if cost.calls_per_sentence is None else f"{cost.calls_per_sentence:.2f}"
    rows = (
        ("model calls", f"{cost.calls:,}"),
        ("model calls per enforceable sentence", calls),
        ("prompt tokens", f"{cost.prompt_tokens:,}"),
        ("completion tokens", f"{cost.completion_tokens:,}"),
        ("cost", "price unknown" if cost.dollars is None else f"${cost.dollars:,.4f}"),
    )
    return ReportSection("Cost", (), ReportTable(("figure", "value"), rows))


def _table(*head: str, rows: tuple[tuple[str, ...], ...]) -> ReportTable:
    """A table of text alone."""
    return ReportTable(head, rows, len(head))


def _ids(names: Sequence[str]) -> tuple[str, ...]:
    """The ids as parts of a note."""
    return tuple(part for name in names for part in (", ", Quoted(name)))[1:] or ("none",)


def _joined(names: Iterable[str]) -> str:
    """The ids as one cell."""
    return Quoted(", ".join(names))


def _numbers(references: Iterable[Reference]) -> str:
    numbers = [str(reference) if isinstance(reference, int) else Quoted(reference) for reference in references]
    text = ", ".join(numbers) or "none"
    return Quoted(text) if any(isinstance(number, Quoted) for number in numbers) else text
