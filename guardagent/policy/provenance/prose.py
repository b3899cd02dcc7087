"""Runs of words: a sentence of a labelled text is found although a word was added to it.

The words of four letters and more that no letter or mail has by custom are read four by four. Of a long text, the
runs are winnowed (Schleimer, Wilkerson and Aiken, 2003), so that one is kept of each few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from zlib import crc32

SIZE = 4  # words of a run
SHORTEST = 4 * SIZE  # characters of a text with a run, at least
GAP = 3  # words that no recorded run has, and that end one
_MARK = "~ "  # begins the keys of runs and of their words
ALL, WINDOW = 300, 4  # runs that are all kept; of more, one of each window
_WORD = re.compile(r"[^\W\d_]{4,}")
_CUSTOMARY = frozenset(
    """about above according after again against agree ahead along already also although always another answer anyone
    anything appreciate around asked attach attached attachment available away back because been before being below best
    better between both bring call come comes could customer date dear details does doing done down each either else
    email enjoy even ever every everyone everything feel final find first following forward found free from further
    future gave give given glad going good great greetings happy hard have having hear hearing hello help here hesitate
    hope how however into item items just keep kind kindly know known last later least less like line list little
    long look looking made mail make makes many might more most much must name need needed needs never next note nothing
    number often once only open other over part people please point possible present question questions quite rather
    reach read ready really receive received regarding regards reply request respond said same second seem seen send
    sent several shall should side since sincerely some someone something soon still such sure take taken than thank
    thanks that their them then there these they thing things think this those through time times today together
    tomorrow touch under until update upon used using very view want wanted week weekend well went were what when where
    whether which while will wish with within without word work working would write year years yesterday yours your
    sehr geehrte geehrter damen herren freundlichen grüßen grüße vielen dank dass nicht werden wird haben sind eine
    einer einen einem oder auch noch über durch nach beim bitte ihre ihren ihnen unser unsere wenn kann können
    cordialement bonjour madame monsieur merci pour avec dans vous nous cette être saludos cordiales gracias para
    este""".split()
)


def runs(text: str) -> set[str]:
    """The keys of the runs of a text that is recorded, and of their words."""
    words = _words(text)
    found = _joined(words, range(SIZE))
    if len(found) > ALL:
        numbers = [crc32(run.encode("utf-8", "replace")) for run in found]
        places = {min(range(at, at + WINDOW), key=numbers.__getitem__) for at in range(len(numbers) - WINDOW + 1)}
        found = [found[at] for at in places]
        words = " ".join(found).split()
    return {*found, *(_MARK + word for word in words)} if found else set()


def sought_runs(text: str, is_known: Callable[[str], bool]) -> Iterator[str]:
    """The keys that a lookup seeks: without a few words that no recorded run has, and with one word left out.

    Args:
        text: the text.
        is_known: whether a key of a word is recorded.
    """
    words = _words(text)
    known = {word for word in set(words) if is_known(_MARK + word)}
    if len(known) < SIZE:
        return
    kept: list[str] = []
    gap = 0
    for word in words:
        gap = 0 if word in known else gap + 1
        if not gap or gap == GAP:
            kept.append("" if gap else word)
    yield from _joined(kept, range(SIZE))
    for left_out in range(1, SIZE):
        yield from _joined(kept, [at for at in range(SIZE + 1) if at != left_out])


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _CUSTOMARY]


def _joined(words: list[str], places: range | list[int]) -> list[str]:
    return [_MARK + " ".join(run) for run in zip(*(words[at:] for at in places), strict=False)]
