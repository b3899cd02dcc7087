"""The state of a review in a few lines or as one JSON object, and the review as one HTML page.

The page loads nothing and runs no script. It shows strings that others chose: the template escapes each of them,
characters that are invisible or change the direction of text become marks, and the content security policy of the page
forbids scripts and requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from itertools import groupby
from typing import Any, Literal

from guardagent._terminal import printable
from guardagent._version import __version__
from guardagent.errors import UnknownNameError
from guardagent.policy.review.record import FATES, Review
from guardagent.translation.drafts import case_row
from guardagent.translation.review.dossier import (
    FATE_PHRASES,
    QuestionEntry,
    ReviewDossier,
    ReviewEntry,
    Standing,
    coded,
    segments,
)

# --- status

Selection = Literal["open", "unconfirmed", "all"]
_STANDINGS: dict[Selection, tuple[Standing, ...]] = {
    "open": ("question",),
    "unconfirmed": ("question", "waiting", "unconfirmed"),
    "all": ("question", "waiting", "unconfirmed", "confirmed"),
}


def selection(name: str) -> Selection:
    """Returns the selection of a name.

    Raises:
        UnknownNameError: there is none of this name.
    """
    selection = next((standing for standing in _STANDINGS if standing == name), None)
    if selection is None:
        raise UnknownNameError("selection", name, _STANDINGS, where="--only")
    return selection


def selected(dossier: ReviewDossier, only: Selection) -> list[ReviewEntry]:
    """The entries with an open question, those that are not confirmed, or all."""
    return [entry for entry in dossier.entries if entry.standing in _STANDINGS[only]]


def summary(dossier: ReviewDossier) -> str:
    """Counts confirmed entries, open questions and answers that wait for `translate`."""
    counts, waiting = dossier.counts, sum(not answer.applied for answer in dossier.review.answers)
    parts = [f"{counts['confirmed']:,} of {len(dossier.entries):,} confirmed"]
    if count := len(dossier.review.open_questions):
        parts.append(f"{count:,} question{'s' if count > 1 else ''} open")
    if waiting:
        parts.append(f"{waiting:,} answer{'s' if waiting > 1 else ''} not applied: run 'guardagent translate' again")
    return "; ".join(parts)


def status_lines(dossier: ReviewDossier) -> list[str]:
    """Returns a line for everything that is open, and the summary."""
    lines = (*dossier.problems, *_question_lines(dossier.review), summary(dossier))
    return [" ".join(printable(line).split()) for line in lines]


def _question_lines(review: Review) -> Iterator[str]:
    """Yields the open questions, with the numbers by which they can be answered."""
    for number, question in enumerate(review.questions, start=1):
        if question in review.open_questions:
            answers = ", ".join(repr(choice.answer) for choice in question.choices)
            yield f"question {number}: {question.text} Answers: {answers}, or own words"


def status_record(dossier: ReviewDossier, only: Selection) -> dict[str, Any]:
    """The same for programs, with the selected entries."""
    return {
        "policies": str(dossier.policies),
        "document": dossier.review.document,
        "complete": dossier.is_complete,
        "problems": list(dossier.problems),
        "sentences": len(dossier.review.sentences),
        "confirmed": dossier.counts["confirmed"],
        "open_questions": len(dossier.review.open_questions),
        "entries": [_record(entry) for entry in selected(dossier, only)],
    }


def _record(entry: ReviewEntry) -> dict[str, Any]:
    sentence = entry.sentence
    return {
        "sentence": sentence and {"number": sentence.number, "place": sentence.place, "text": sentence.text},
        "fate": entry.fate,
        "rules": [{"id": rule.id, "note": rule.note} for rule in entry.rules],
        "standing": entry.standing,
        "obstacle": entry.obstacle,
        "questions": [{"id": open_question.id, "text": open_question.text} for open_question in entry.open_questions],
        "confirmed_by": entry.confirmation and entry.confirmation.by,
    }


# --- the page


def review_page(
    dossier: ReviewDossier, digest: Callable[[ReviewEntry, QuestionEntry], str] | None = None, problem: str = ""
) -> str:
    """Returns the page.

    Args:
        dossier: the review.
        digest: identifies what an answer is about; the page then has forms for answers.
        problem: why the last answer was not taken.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def visible(value: Any) -> Any:
        return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    def anchor(entry: ReviewEntry) -> str:
        return f"s{entry.sentence.number}" if entry.sentence else f"r{others.index(entry) + 1}"

    folder = files("guardagent.translation.review").joinpath("page")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=visible
    )
    others = [entry for entry in dossier.entries if not entry.sentence]
    chapters = groupby((entry for entry in dossier.entries if entry.sentence), _path)
    counts = Counter(sentence.fate for sentence in dossier.review.sentences)
    return environment.from_string(folder.joinpath("page.html.j2").read_text(encoding="utf-8")).render(
        dossier=dossier,
        review=dossier.review,
        summary=summary(dossier),
        chapters=[(path, list(entries)) for path, entries in chapters],
        others=others,
        tasks=list(_tasks(dossier.entries)),
        coverage=[(fate, FATE_PHRASES[fate], counts[fate]) for fate in FATES if counts[fate]],
        anchor=anchor,
        digest=digest,
        problem=problem,
        style=Markup(folder.joinpath("page.css").read_text(encoding="utf-8")),  # noqa: S704 - of this package
        version=__version__,
        fate_phrases=FATE_PHRASES,
        case_row=case_row,
        segments=segments,
        coded=coded,
    )


def _tasks(entries: Sequence[ReviewEntry]) -> Iterator[tuple[str, str, list[ReviewEntry]]]:
    """Yields the entries that need a person, the most urgent first, with a title and a tone."""
    wanted = [
        ("Open questions", "question", [entry for entry in entries if entry.open_questions]),
        (
            "Blocking findings",
            "blocking",
            [entry for entry in entries if any(each.blocking for each in entry.findings)],
        ),
        ("Wait for 'translate'", "waiting", [entry for entry in entries if entry.standing == "waiting"]),
        ("To be confirmed", "unconfirmed", [entry for entry in entries if entry.standing == "unconfirmed"]),
    ]
    yield from (task for task in wanted if task[2])


def _path(entry: ReviewEntry) -> tuple[str, ...]:
    """The headings above a sentence; a heading is below itself."""
    assert entry.sentence
    own = (entry.sentence.text,) if entry.sentence.kind == "heading" else ()
    return entry.sentence.path + own
