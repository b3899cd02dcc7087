"""An answer in the reviewer's own words, as a line of the dialogue: `neither: only on Mondays`."""

from __future__ import annotations

import re

from guardagent.errors import InputError
from guardagent.policy.review.record import ReviewQuestion
from guardagent.translation.review.entry import ReviewEntry

LONGEST = 2000
_LINE = re.compile(r"neither(?:\s+(?P<key>[a-z]\d*))?\s*:(?P<words>.*)", re.IGNORECASE | re.DOTALL)


def begins_own_words(line: str) -> bool:
    """Whether a line of the dialogue is an answer in own words."""
    return _LINE.match(line) is not None


def own_words(line: str, entry: ReviewEntry) -> tuple[ReviewQuestion, str]:
    """Returns the question that a line answers, and the words.

    Args:
        line: a line that begins with `neither:`, or with `neither KEY:` and the key of a choice of the question.
        entry: the entry that was shown.

    Raises:
        InputError: there are no words, too many, or such that nobody can read; or it is not clear which question they
            answer.
    """
    found = _LINE.match(line)
    words = " ".join(found["words"].split()) if found else ""
    if not found or not words:
        raise InputError("there are no words after 'neither:'; expected what is to hold instead")
    if len(words) > LONGEST:
        raise InputError(f"the answer has {len(words):,} characters; expected at most {LONGEST:,}")
    if not words.isprintable():
        raise InputError("the answer has characters that cannot be shown; expected text")
    return _question(found["key"], entry), words


def _question(key: str | None, entry: ReviewEntry) -> ReviewQuestion:
    if key is not None:
        if key.lower() not in entry.choices:
            raise InputError(f"{key!r} is no key of a choice; expected one of {', '.join(entry.choices)}")
        return entry.choices[key.lower()][0]
    possible = entry.open_questions or tuple(one.question for one in entry.questions)
    if len(possible) != 1:
        raise InputError("there are several questions; expected the key of a choice of one of them: 'neither a: …'")
    return possible[0]
