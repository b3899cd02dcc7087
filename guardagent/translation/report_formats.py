"""The formats of the report on a translation, and its sections for people. Decisions that are missing come first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guardagent._support.plugins import Plugins
from guardagent._support.sections import Quoted, ReportSection, ReportTable, html, markdown, percent
from guardagent.translation.review.dossier import FATE_PHRASES, READINGS_PHRASES

Summary = Mapping[str, Any]
"""The content of a report, as `summarize` returns it."""


@dataclass(frozen=True, slots=True)
class TranslationReportFormat:
    """A format.

    Attributes:
        suffix: the suffix of files in this format.
        render: writes the report.
    """

    suffix: str
    render: Callable[[Summary], str]


def render(summary: Summary, format: str) -> str:  # noqa: A002 - as the option is called
    """Returns the report in one of `FORMATS`.

    Raises:
        UnknownNameError: the format does not exist.
    """
    text: str = FORMATS.load(format).render(summary)
    return text


FORMATS = Plugins(
    "translation report",
    "",
    ("SUFFIX", "render"),
    "guardagent.translation_reports",
    members={
        "html": TranslationReportFormat(".html", lambda summary: html(_TITLE, _warning(summary), _sections(summary))),
        # ASCII alone: the strings of others reach no terminal as control characters.
        "json": TranslationReportFormat(".json", lambda summary: f"{json.dumps(summary, indent=2)}\n"),
        "markdown": TranslationReportFormat(
            ".md", lambda summary: markdown(_TITLE, _warning(summary), _sections(summary))
        ),
    },
    adapt=lambda module: TranslationReportFormat(module.SUFFIX, module.render),
)

_TITLE = "Translation report"
_UNREAD = "unread_argument"


def _warning(summary: Summary) -> str:
    """The sentence on missing decisions; empty if there are none."""
    coverage = summary["coverage"]
    counts = {
        "undecided sentence": coverage["undecided"]["count"],
        "open question": sum(question["by"] is None for question in summary["questions"]),
        "blocking finding": sum(finding["blocking"] for finding in summary["findings"]),
        "open sentence": coverage["open"]["count"],
        "open rule": sum(rule["standing"] == "open" for rule in summary["rules"]),
    }
    counts_text = ", ".join(f"{count:,} {noun}{'s' * (count > 1)}" for noun, count in counts.items() if count)
    word = {0: "", 1: "NOT SETTLED", 3: "INCOMPLETE"}[summary["outcome"]]
    return f"{word}: {counts_text}." if word else ""


def _sections(summary: Summary) -> Iterator[ReportSection]:
    """Yields the sections below the title and the warning."""
    yield _overview(summary)
    yield _coverage(summary)
    if summary["changes"] is not None:
        yield from _changes(summary["changes"])
    yield from _questions(summary)
    yield _findings(summary)
    yield from _sentences(summary)
    yield _facts(summary)
    yield _rules(summary)
    yield _signatures(summary)
    yield _cost(summary)


def _overview(summary: Summary) -> ReportSection:
    coverage, rules = summary["coverage"], summary["rules"]
    standings = Counter(rule["standing"] for rule in rules)
    rows = [("sentences", f"{coverage['sentences']:,}")]
    rows += [(f"- {FATE_PHRASES[fate]}", f"{count:,}") for fate, count in coverage["fates"].items()]
    rows += [("headings, not counted above", f"{coverage['headings']:,}"), ("rules", f"{len(rules):,}")]
    rows += [(f"- {name}", f"{standings[name]:,}") for name in ("settled", "single", "open")]
    document = ("Document: ", Quoted(summary["document"]), ", SHA-256 ", Quoted(summary["document_hash"]))
    settled = () if summary["outcome"] else (("Every question is answered, and no finding blocks.",),)
    return ReportSection("Overview", (document, *settled), ReportTable(("figure", "value"), tuple(rows)))


def _coverage(summary: Summary) -> ReportSection:
    coverage = summary["coverage"]
    note = (
        f"A rule can enforce {coverage['enforceable']:,} of {coverage['sentences']:,} sentences. A sentence is settled "
        "if a reader of the document took their cases as the author of the rules did or a person decided, single if "
        "no second reader has seen them, and open while a question or a blocking finding about it is open."
    )
    figures = {
        "with a rule": "covered",
        "- settled": "settled",
        "- single": "single",
        "- open": "open",
        "undecided": "undecided",
        "with a part that no rule covers": "partial",
    }
    rows = tuple((name, *_shares(**coverage[figure])) for name, figure in figures.items())
    head = ("standing", "sentences", "of all", "of the enforceable")
    return ReportSection("Coverage", ((note,),), ReportTable(head, rows))


def _shares(count: int, **shares: float | None) -> tuple[str, ...]:
    return f"{count:,}", *("-" if share is None else percent(share) for share in shares.values())


def _changes(changes: Mapping[str, Any]) -> Iterator[ReportSection]:
    pairs = [("changed", change["old"], change["new"]) for change in changes["changed"]]
    pairs += [("added", None, sentence) for sentence in changes["added"]]
    pairs += [("removed", sentence, None) for sentence in changes["removed"]]
    notes = (
        ("Answers applied: ", *_ids(changes["answers"])),
        ("Rules written again or removed: ", *_ids(changes["fallen"])),
        ("Rules kept: ", *_ids(changes["kept"])),
        ("To see what recorded calls would now get: ", Quoted(changes["replay"])),
    )
    rows = tuple(
        (kind, str((new or old)["number"]), *(Quoted(side["text"]) if side else "" for side in (old, new)))
        for kind, old, new in pairs
    )
    table = _table("change", "number", "before", "now", rows=rows)
    yield ReportSection("Changes since the last version", notes, table)


def _questions(summary: Summary) -> Iterator[ReportSection]:
    waiting = [question for question in summary["questions"] if question["by"] is None]
    yield ReportSection("Open questions", () if waiting else (("None.",),))
    yield from map(_question, waiting)
    if answered := summary["questions"][len(waiting) :]:
        yield ReportSection("Answered questions")
        yield from map(_question, answered)


def _question(row: Mapping[str, Any]) -> ReportSection:
    sentences = _numbers(row["sentences"])
    notes: tuple[tuple[str, ...], ...] = (
        ("Id: ", Quoted(row["id"]), "; sentences: ", sentences, "; rules: ", *_ids(row["rules"])),
    )
    if row["by"] is not None:
        own = ("in own words: ", Quoted(row["words"] or ""))
        chosen = own if row["answer"] is None else ("choice ", str(row["answer"] + 1))
        notes += (("Answer: ", *chosen, ", by ", Quoted(row["by"]), " at ", Quoted(row["at"])),)
    may_run = {True: "yes", False: "no", None: "-"}
    rows = tuple(
        (str(at), Quoted(choice["answer"]), may_run[choice["allowed"]], Quoted(choice["reading"]))
        for at, choice in enumerate(row["choices"], 1)
    )
    table = _table("choice", "answer", "the call may run", "reading", rows=rows)
    return ReportSection(Quoted(row["text"]), notes, table, level=3)


def _findings(summary: Summary) -> ReportSection:
    rows = tuple(
        (
            "blocking" if finding["blocking"] else "note", Quoted(finding["kind"]), Quoted(finding["message"]),
            _numbers(finding["sentences"]), _joined(finding["rules"]), Quoted(finding["example"]),
        )
        for finding in summary["findings"]
        if finding["kind"] != _UNREAD
    )  # fmt: skip
    table = _table("level", "kind", "finding", "sentences", "rules", "example", rows=rows)
    return ReportSection("Findings", () if rows else (("None.",),), table)


def _sentences(summary: Summary) -> Iterator[ReportSection]:
    """Yields the sentences by fate: first those that no rule enforces, since somebody else has to."""

    def of(*fates: str, headings: bool = False) -> list[Mapping[str, Any]]:
        return [row for row in summary["sentences"] if row["heading"] is headings and row["fate"] in fates]

    yield _listing("Undecided sentences", of("open"))
    note = "The operator has to enforce these by other means."
    yield _listing("Sentences that no rule can enforce", of("not_enforceable"), note=note)
    yield from _unread_arguments(summary)
    yield _listing("Sentences with rules", of("rule"))
    yield _listing("Other sentences", of("definition", "fact", "implied"), fate=True)
    yield _listing("Headings without a rule", of(*FATE_PHRASES, headings=True), fate=True)


def _unread_arguments(summary: Summary) -> Iterator[ReportSection]:
    """Yields the arguments of writing tools that no rule reads, if there are any."""
    if rows := tuple((Quoted(each["message"]),) for each in summary["findings"] if each["kind"] == _UNREAD):
        note = "The document says nothing that limits them. Decide whether it should."
        yield ReportSection("Arguments that no rule reads", ((note,),), _table("argument", rows=rows))


def _listing(
    title: str, sentences: Sequence[Mapping[str, Any]], *, note: str = "", fate: bool = False
) -> ReportSection:
    """The sentences as a table with the columns that have content."""
    rows = [
        (
            str(sentence["number"]),
            Quoted(sentence["text"]),
            FATE_PHRASES[sentence["fate"]] if fate else "",
            sentence["standing"] or "",
            _joined(sentence["rules"]),
            Quoted(sentence["reason"]),
            Quoted(sentence["place"]),
        )
        for sentence in sentences
    ]
    head = ("number", "sentence", "fate", "standing", "rules", "reason, or the part that no rule covers", "place")
    kept = [at for at in range(len(head)) if any(row[at] for row in rows)]
    table = _table(*(head[at] for at in kept), rows=tuple(tuple(row[at] for at in kept) for row in rows))
    text = note if rows else "None."
    return ReportSection(title, ((text,),) if text else (), table)


def _facts(summary: Summary) -> ReportSection:
    rows = tuple((Quoted(fact["name"]), Quoted(fact["description"])) for fact in summary["facts"])
    note = "The rules read these facts. A call is denied while the host does not give them." if rows else "None."
    return ReportSection("Facts from the host", ((note,),), _table("fact", "description", rows=rows))


def _rules(summary: Summary) -> ReportSection:
    """A row for each sentence that a rule rests on."""
    nothing = [("none", "-")]
    rows = tuple(
        (Quoted(rule["id"]), *ground, READINGS_PHRASES[rule["readings"]], rule["standing"])
        for rule in summary["rules"]
        for ground in [(_numbers([each["sentence"]]), Quoted(each["quote"])) for each in rule["grounds"]] or nothing
    )
    table = _table("rule", "sentence", "quoted words", "readings", "standing", rows=rows)
    return ReportSection("Rules and their grounds", () if rows else (("None.",),), table)


def _signatures(summary: Summary) -> ReportSection:
    signed = summary["signatures"]
    confirmed, left = signed["confirmed"], len(signed["sentences"]) + len(signed["rules"])
    void = f" Void, as their content has changed: {signed['void']:,}." if signed["void"] else ""
    notes = (
        (f"Confirmed: {confirmed:,} of {confirmed + left:,} sentences and rules without a sentence.{void}",),
        ("Not confirmed: sentences: ", _numbers(signed["sentences"]), "; rules: ", *_ids(signed["rules"])),
    )
    rows = tuple((Quoted(name), f"{count:,}") for name, count in signed["by"].items())
    return ReportSection("Confirmations", notes if left else notes[:1], ReportTable(("by", "confirmed"), rows))


def _cost(summary: Summary) -> ReportSection:
    cost = summary["cost"]
    dollars, share = cost["dollars"], cost["calls_per_sentence"]
    rows = (
        ("model calls", f"{cost['calls']:,}"),
        ("model calls per enforceable sentence", "-" if share is None else f"{share:.2f}"),
        ("prompt tokens", f"{cost['prompt_tokens']:,}"),
        ("completion tokens", f"{cost['completion_tokens']:,}"),
        ("cost", "price unknown" if dollars is None else f"${dollars:,.4f}"),
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


def _numbers(references: Iterable[int | str]) -> str:
    numbers = [str(reference) if isinstance(reference, int) else Quoted(reference) for reference in references]
    text = ", ".join(numbers) or "none"
    return Quoted(text) if any(isinstance(number, Quoted) for number in numbers) else text
