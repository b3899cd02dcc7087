"""The state of a review in a few lines, or as one JSON object."""

from __future__ import annotations

from typing import Any, Literal

from guardagent._terminal import printable
from guardagent.errors import UnknownNameError
from guardagent.translation.review.dossier import ReviewDossier
from guardagent.translation.review.entry import ReviewEntry, Standing

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
    found = next((one for one in _STANDINGS if one == name), None)
    if found is None:
        raise UnknownNameError("selection", name, _STANDINGS, where="--only")
    return found


def selected(dossier: ReviewDossier, only: Selection) -> list[ReviewEntry]:
    """The entries with an open question, those that are not confirmed, or all."""
    return [one for one in dossier.entries if one.standing in _STANDINGS[only]]


def summary(dossier: ReviewDossier) -> str:
    """Counts confirmed entries, open questions and answers that wait for `translate`."""
    counts, waiting = dossier.counts, sum(not one.applied for one in dossier.review.answers)
    parts = [f"{counts['confirmed']:,} of {len(dossier.entries):,} confirmed"]
    if count := len(dossier.review.open_questions):
        parts.append(f"{count:,} question{'s' if count > 1 else ''} open")
    if waiting:
        parts.append(f"{waiting:,} answer{'s' if waiting > 1 else ''} not applied: run 'guardagent translate' again")
    return "; ".join(parts)


def status_lines(dossier: ReviewDossier) -> list[str]:
    """Returns a line for everything that is open, and the summary."""
    return [" ".join(printable(one).split()) for one in (*dossier.problems, summary(dossier))]


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
        "entries": [_record(one) for one in selected(dossier, only)],
    }


def _record(entry: ReviewEntry) -> dict[str, Any]:
    sentence = entry.sentence
    return {
        "sentence": sentence and {"number": sentence.number, "place": sentence.place, "text": sentence.text},
        "fate": entry.fate,
        "rules": [{"id": one.id, "note": one.note} for one in entry.rules],
        "standing": entry.standing,
        "obstacle": entry.obstacle,
        "questions": [{"id": one.id, "text": one.text} for one in entry.open_questions],
        "confirmed_by": entry.confirmation and entry.confirmation.by,
    }
