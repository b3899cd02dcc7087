"""The review at a terminal: one entry after the other, and every answer and confirmation saved at once.

All strings come from other people, so they are escaped and shortened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TextIO

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from guardagent._terminal import printable
from guardagent.errors import InputError
from guardagent.policy.review.record import ReviewFinding
from guardagent.translation.drafts import case_row
from guardagent.translation.review.dossier import (
    FATE_PHRASES,
    EntryKey,
    QuestionEntry,
    ReviewConflictError,
    ReviewDossier,
    ReviewEntry,
    ReviewStore,
    RuleEntry,
    Standing,
    begins_own_words,
    own_words,
    read_dossier,
    segments,
)
from guardagent.translation.review.page import Selection, selected, summary

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# --- entries at a terminal

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
    for document_problem in dossier.document_problems:
        console.print(Text.assemble(("✘ ", "bold red"), shown(document_problem)), soft_wrap=False, highlight=False)
    for finding in dossier.findings:
        console.print(_finding(finding), soft_wrap=False, highlight=False)


def _title(entry: ReviewEntry) -> Text:
    title = Text(f" · {entry.standing}", style=STANDING_STYLES[entry.standing])
    if entry.sentence is None:
        return shown(f"rule {entry.rules[0].id}, which rests on no sentence", "bold").append(title)
    place = f"{entry.sentence.number} · {entry.sentence.place}" + "".join(
        f" › {heading}"  # noqa: RUF001
        for heading in entry.sentence.path
    )
    return shown(" ".join(place.split()), "bold").append(title)


def _parts(entry: ReviewEntry) -> Iterator[RenderableType]:
    if entry.sentence:
        for context_text in entry.sentence.context:
            yield shown(context_text, "dim")
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
    if rule.recorded.cases:
        table = Table("expected", "proposed", "before it", box=None, padding=(0, 2, 0, 0), header_style="dim")
        for row in map(case_row, rule.recorded.cases):
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
    if confirmation := entry.confirmation:
        yield shown(f"✔ confirmed by {confirmation.by}, {confirmation.at}", "green")
    elif confirmation := entry.void:
        yield shown(f"no longer confirmed: {confirmation.by} confirmed other content, {confirmation.at}", "yellow")


# --- the dialogue

_STEPS = {"s": 1, "<": -1, "q": None}
_HELP = """\
a, b, …  answer a question; nothing is chosen for you, and nothing is confirmed while a question is open
neither: …  answer in your own words, such as 'neither: only on Mondays'; of several questions, name one by the key
         of a choice: 'neither b: …'. The rules are written again by your words; then you confirm them
y        confirm that the sentence becomes exactly what is shown
s        skip: go on to the next sentence
<        go back to the sentence before
q        quit; everything up to here is saved
?        this help"""


class ReviewDialogue:
    """A dialogue with one reviewer.

    Args:
        store: the review, and the reviewer's name.
        console: the terminal.
        stream: the source of the keys; None for standard input.
    """

    def __init__(self, store: ReviewStore, console: Console, stream: TextIO | None = None) -> None:
        self._store, self._console, self._stream = store, console, stream

    def run(self, only: Selection = "unconfirmed") -> ReviewDossier:
        """Shows the selected entries until the last one or until the reviewer quits. Returns the review after it.

        Raises:
            InputError: a file is invalid or cannot be written.
        """
        dossier = read_dossier(self._store.policies)
        show_general(dossier, self._console)
        names, at = [entry.key for entry in selected(dossier, only)], 0
        while at < len(names):
            step = self._visit(names[at], f"{at + 1} of {len(names)}")
            if step is None:
                break
            at = max(0, at + step)
        dossier = read_dossier(self._store.policies)
        self._say(summary(dossier))
        return dossier

    def _visit(self, key: EntryKey, progress: str) -> int | None:
        """Shows an entry until the reviewer leaves it. Returns the step to the next one; None ends the dialogue."""
        is_saved = False
        while (entry := self._entry(key)) is not None:
            if is_saved and not entry.open_questions:
                return 1
            show_entry(entry, progress, self._console)
            pressed = self._pressed(entry)
            if pressed in _STEPS:
                return _STEPS[pressed]
            is_saved = self._save(entry, pressed)
        self._say("it is no longer in the review")
        return 1

    def _entry(self, key: EntryKey) -> ReviewEntry | None:
        return next((entry for entry in read_dossier(self._store.policies).entries if entry.key == key), None)

    def _pressed(self, entry: ReviewEntry) -> str:
        """Prompts until a key fits. The end of the input quits."""
        choices = entry.choices
        self._say(_offer(entry))
        while True:
            answer = f"{' '.join(choices)} answer · neither: … own words · " if choices else ""
            confirm = "" if entry.obstacle or entry.confirmation else "y confirm · "
            line = self._line(f"{answer}{confirm}s skip · < back · q quit · ? help: ")
            pressed = line.lower()
            if choices and begins_own_words(line):
                return line
            if pressed == "?":
                self._say(_HELP)
            elif pressed in _STEPS or pressed in choices or (pressed == "y" and confirm):
                return pressed
            else:
                self._say(_offer(entry) if pressed == "y" else "not a key of this sentence; ? explains the keys")

    def _line(self, prompt: str) -> str:
        try:
            line = self._console.input(Text(prompt, style="bold"), stream=self._stream)
        except EOFError:
            line = ""
        else:
            line += "\n" if self._stream is None else ""
        if not line:
            self._say("")
        return line.strip() if line else "q"

    def _save(self, entry: ReviewEntry, pressed: str) -> bool:
        """Saves an answer or a confirmation; returns False if the entry has changed meanwhile."""
        try:
            if pressed == "y":
                self._store.confirm(entry)
                self._say(f"✔ {entry.name} confirmed by {self._store.by}")
            elif begins_own_words(pressed):
                return self._save_words(entry, pressed)
            else:
                self._store.answer(entry, *entry.choices[pressed])
                self._say(f"✔ answered by {self._store.by}")
        except ReviewConflictError as conflict:
            self._say(f"✘ {conflict}")
            return False
        return True

    def _save_words(self, entry: ReviewEntry, line: str) -> bool:
        try:
            question, words = own_words(line, entry)
        except InputError as error:
            self._say(str(error))
            return False
        self._store.answer(entry, question, words)
        self._say(f"✔ answered by {self._store.by} in own words: {words}")
        return True

    def _say(self, text: str) -> None:
        self._console.print(shown(text), soft_wrap=False, highlight=False)


def _offer(entry: ReviewEntry) -> str:
    """Says exactly what a confirmation would confirm, or why there can be none."""
    if entry.obstacle:
        return f"{entry.name} cannot be confirmed: {entry.obstacle}"
    if entry.confirmation:
        return f"{entry.name} is confirmed"
    if not entry.sentence:
        has = f"stands as shown ({entry.rules[0].hash[:12]})" if entry.rules[0].hash else "is gone from the policy"
        return f"y confirms: {entry.name} {has}"
    rules = ", ".join(f"{name} ({hash_[:12]})" for name, hash_ in entry.rule_hashes.items())
    return f"y confirms: {entry.name} is {FATE_PHRASES[entry.fate]}{f': {rules}' if rules else ''}"
