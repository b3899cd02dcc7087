"""The review as one HTML page, which loads nothing and runs nothing.

It shows strings that others chose: the template escapes each of them, characters that are invisible or change the
direction of text become marks, and the content security policy of the page forbids scripts and requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import groupby
from typing import Any

from guardagent._terminal import printable
from guardagent._version import __version__
from guardagent.policy.review.record import FATES, Fate
from guardagent.translation.review.case_row import case_rows
from guardagent.translation.review.dossier import ReviewDossier
from guardagent.translation.review.entry import FATE_PHRASES, ReviewEntry
from guardagent.translation.review.fragments import coded, segments
from guardagent.translation.review.status import summary


@dataclass(frozen=True, slots=True)
class PageChapter:
    """The entries below one heading."""

    path: tuple[str, ...]
    entries: tuple[ReviewEntry, ...]

    @property
    def confirmed(self) -> int:
        return sum(one.standing == "confirmed" for one in self.entries)


@dataclass(frozen=True)
class ReviewPageView:
    """The parts of the page."""

    dossier: ReviewDossier

    @cached_property
    def chapters(self) -> list[PageChapter]:
        """The sentences by the headings above them, in order."""
        sentences = [one for one in self.dossier.entries if one.sentence]
        return [PageChapter(path, tuple(group)) for path, group in groupby(sentences, _path)]

    @property
    def others(self) -> list[ReviewEntry]:
        """The rules that rest on no sentence."""
        return [one for one in self.dossier.entries if not one.sentence]

    @property
    def coverage(self) -> Iterator[tuple[Fate, str, int]]:
        """The number of sentences of each fate, with its phrase."""
        counts = Counter(one.fate for one in self.dossier.review.sentences)
        return ((fate, FATE_PHRASES[fate], counts[fate]) for fate in FATES if counts[fate])

    @property
    def tasks(self) -> Iterator[tuple[str, str, list[ReviewEntry]]]:
        """The entries that need a person, the most urgent first, with a title and a tone."""
        entries = self.dossier.entries
        wanted = [
            ("Open questions", "question", [one for one in entries if one.open_questions]),
            ("Blocking findings", "blocking", [one for one in entries if any(each.blocking for each in one.findings)]),
            ("Wait for 'translate'", "waiting", [one for one in entries if one.standing == "waiting"]),
            ("To be confirmed", "unconfirmed", [one for one in entries if one.standing == "unconfirmed"]),
        ]
        return (one for one in wanted if one[2])

    def anchor(self, entry: ReviewEntry) -> str:
        """The id of an entry's card."""
        return f"s{entry.sentence.number}" if entry.sentence else f"r{self.others.index(entry) + 1}"


def review_page(dossier: ReviewDossier) -> str:
    """Returns the page."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def visible(value: Any) -> Any:
        return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    folder = files("guardagent.translation.review").joinpath("page")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=visible
    )
    return environment.from_string(folder.joinpath("page.html.j2").read_text(encoding="utf-8")).render(
        view=ReviewPageView(dossier),
        review=dossier.review,
        summary=summary(dossier),
        style=Markup(folder.joinpath("page.css").read_text(encoding="utf-8")),  # noqa: S704 - of this package
        version=__version__,
        fate_phrases=FATE_PHRASES,
        case_rows=case_rows,
        segments=segments,
        coded=coded,
    )


def _path(entry: ReviewEntry) -> tuple[str, ...]:
    """The headings above a sentence; a heading is below itself."""
    assert entry.sentence
    own = (entry.sentence.text,) if entry.sentence.kind == "heading" else ()
    return entry.sentence.path + own
