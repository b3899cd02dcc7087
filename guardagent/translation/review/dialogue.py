"""The review at a terminal: one entry after the other, and every answer and confirmation saved at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rich.text import Text

from guardagent.errors import InputError
from guardagent.translation.review.dossier import ReviewDossier, read_dossier
from guardagent.translation.review.entry import FATE_PHRASES, EntryKey, ReviewEntry
from guardagent.translation.review.own_words import begins_own_words, own_words
from guardagent.translation.review.status import Selection, selected, summary
from guardagent.translation.review.store import ReviewConflictError, ReviewStore
from guardagent.translation.review.terminal import show_entry, show_general, shown

if TYPE_CHECKING:
    from rich.console import Console

_STEPS = {"s": 1, "<": -1, "q": None}
_HELP = """\
a, b, …  answer a question; nothing is chosen for you, and nothing is confirmed while a question is open
neither: …  answer in your own words, such as 'neither: only on Mondays'; of several questions, name one by the key
         of a choice: 'neither b: …'. Both drafts are written again by your words; then you confirm the rule
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
        names, at = [one.key for one in selected(dossier, only)], 0
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
        return next((one for one in read_dossier(self._store.policies).entries if one.key == key), None)

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
