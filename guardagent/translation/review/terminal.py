"""Prints the entries of a review at a terminal. All text is of other people, so it is escaped and shortened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from guardagent._terminal import printable
from guardagent.policy.review.record import ReviewFinding
from guardagent.translation.review.case_row import case_rows
from guardagent.translation.review.dossier import ReviewDossier
from guardagent.translation.review.entry import FATE_PHRASES, QuestionEntry, ReviewEntry, RuleEntry, Standing
from guardagent.translation.review.fragments import segments

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

LONGEST = 4000
STANDING_STYLES: dict[Standing, str] = {
    "question": "bold yellow",
    "waiting": "bold magenta",
    "unconfirmed": "bold cyan",
    "confirmed": "bold green",
}


def shown(text: str, style: str = "") -> Text:
    """Returns a string of other people for the terminal: no control characters, no markup, not endless."""
    return Text(printable(text[:LONGEST]), style=style).append(_rest(text))


def _rest(text: str) -> Text:
    rest = len(text) - LONGEST
    return Text(f" … {rest:,} more characters; '--page' shows them" if rest > 0 else "", style="dim italic")


def show_entry(entry: ReviewEntry, progress: str, console: Console) -> None:
    """Prints a sentence with its rules, findings and questions."""
    console.print()
    console.rule(
        _title(entry).append(f" · {progress}", style="dim"), style=STANDING_STYLES[entry.standing], align="left"
    )
    for part in _parts(entry):
        console.print(Padding(part, (0, 0, 0, 2)), soft_wrap=False, highlight=False)


def show_general(dossier: ReviewDossier, console: Console) -> None:
    """Prints the findings about the whole document."""
    for one in dossier.document_problems:
        console.print(Text.assemble(("✘ ", "bold red"), shown(one)), soft_wrap=False, highlight=False)
    for finding in dossier.findings:
        console.print(_finding(finding), soft_wrap=False, highlight=False)


def _title(entry: ReviewEntry) -> Text:
    title = Text(f" · {entry.standing}", style=STANDING_STYLES[entry.standing])
    if entry.sentence is None:
        return shown(f"rule {entry.rules[0].id}, which rests on no sentence", "bold").append(title)
    place = f"{entry.sentence.number} · {entry.sentence.place}" + "".join(f" › {one}" for one in entry.sentence.path)  # noqa: RUF001
    return shown(" ".join(place.split()), "bold").append(title)


def _parts(entry: ReviewEntry) -> Iterator[RenderableType]:
    if entry.sentence:
        for one in entry.sentence.context:
            yield shown(one, "dim")
        yield _sentence(entry.sentence.text, entry.quotes)
        reason = f": {entry.sentence.reason}" if entry.sentence.reason else ""
        yield Text.assemble((f"→ {FATE_PHRASES[entry.fate]}", "bold"), shown(reason))
    for rule in entry.rules:
        yield from _rule(rule, entry)
    yield from map(_finding, entry.findings)
    for question in entry.questions:
        yield from _question(question, entry.keys)
    yield from _signature(entry)


def _sentence(text: str, quotes: Iterable[str]) -> Text:
    parts = segments(text[:LONGEST], quotes)
    marked = Text.assemble(*((printable(part), "bold underline" if is_quoted else "") for part, is_quoted in parts))
    return marked.append(_rest(text))


def _rule(rule: RuleEntry, entry: ReviewEntry) -> Iterator[RenderableType]:
    yield Text()
    note = f"  ({rule.note})" if rule.note else ""
    yield shown(rule.id, "bold cyan").append(note, style="bold yellow")
    if rule.words:
        yield shown(rule.words)
    if rule.note:
        yield shown(rule.source, "dim")
    if rule.recorded is None:
        return
    if rule.words != rule.recorded.words:
        yield shown(f"at the translation: {rule.recorded.words}", "dim")
    for line in entry.grounds(rule):
        yield shown(line, "dim")
    if rows := case_rows(rule.recorded.cases):
        table = Table("expected", "proposed", "before it", box=None, padding=(0, 2, 0, 0), header_style="dim")
        for row in rows:
            style = "green" if row.expected == "allowed" else "red"
            table.add_row(shown(row.expected, style), shown(row.call), shown(row.before, "dim"))
        yield table


def _finding(finding: ReviewFinding) -> Text:
    sign, style = ("✘", "bold red") if finding.blocking else ("!", "bold yellow")
    example = f" For example: {finding.example}" if finding.example else ""
    return Text.assemble((f"{sign} ", style), shown(f"{finding.kind}: {finding.message}{example}"))


def _question(entry: QuestionEntry, keys: Mapping[tuple[str, int], str]) -> Iterator[RenderableType]:
    yield Text()
    yield Text.assemble(("? ", "bold yellow"), shown(entry.question.text, "bold"))
    chosen = entry.answer.choice if entry.answer else None
    for at, choice in enumerate(entry.question.choices):
        mark = "●" if at == chosen else " "
        words = f": {choice.words}" if choice.words else ""
        yield Text.assemble(
            (f"{mark} {keys[entry.question.id, at]}  ", "bold yellow"), shown(f"{choice.answer}{words}")
        )
    if entry.answer and entry.answer.choice is None:
        yield Text.assemble(("● ", "bold yellow"), shown(f"in own words: {entry.answer.words}"))
    if entry.answer:
        applied = "" if entry.answer.applied else "; 'guardagent translate' applies it"
        yield shown(f"answered by {entry.answer.by}, {entry.answer.at}{applied}", "green")


def _signature(entry: ReviewEntry) -> Iterator[RenderableType]:
    yield Text()
    if one := entry.confirmation:
        yield shown(f"✔ confirmed by {one.by}, {one.at}", "green")
    elif one := entry.void:
        yield shown(f"no longer confirmed: {one.by} confirmed other content, {one.at}", "yellow")
