"""Reading free text: a named field, phrases of a lexicon, the best of some options."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from ._headings import LIST, goes_on, is_named, name_of, outside_code, split_line, style_of, unmarked, without_fence
from ._plain import plain, text_of, word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# A step of a phrase: may up to four words come before it, and the forms its word may take.
_Step = tuple[bool, frozenset[str]]
_Pattern = tuple[str, tuple[_Step, ...]]

# Numbers keep their point and comma, words the apostrophe within; any other sign is a token of its own. What is
# left out (spaces, hyphens, underscores, the apostrophe of drivers') may stand between the words of a phrase.
_TOKEN = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+(?:'[^\W_]+)*|[^\w\s'-]")
_PLUS = re.compile(r"\s\+\s")  # within a word it belongs to a name
_CONSONANT_Y = re.compile("[^aeiou]y$")
_SHORT_VOWEL = re.compile("(?:^|[^aeiou]|qu)[aeiou][^aeiouwxy]$")
_CLAUSE_ENDS = frozenset(".,;:!?()[]{}")
_MOST_WORDS_BETWEEN = 4
_MOST_WORDS_OF_A_PHRASE = 20

# What their -s makes is another word, or none.
_NO_PLURAL = "and are but for from has have her his its not our that the this was with yes"
_NOT_A_PLURAL = """
    always atlas besides canvas christmas customs does dallas gas goes goods has kansas means news perhaps
    series species texas thanks vegas was yes
"""
# Words that say nothing of what a text is about.
_FUNCTION_WORDS = """
    a about all am an and any are as at be been being but by can could did do does for from had has have he
    her hers him his how i if in into is it its me my no nor not of on or our ours shall she should so some
    such than that the their them then there these they this those to too us was we were what when where
    which while who whom whose why will with would you your yours
"""


def classify(text: str, options: list[str] | dict[str, str]) -> str:
    """The option that fits a text best, by the words they share.

    Words are compared without case and inflection (renting = rents); function words are left out, and so
    are words that all of several options contain. Each remaining word of an option that the text contains
    counts 1 / (number of options that contain it), once. The highest sum wins.

    Args:
        text: what is to be classified.
        options: the names or descriptions to choose from, or name -> description or keywords; the words
            of a name count as well.

    Returns:
        The option, or its name. "" when no word fits: that is unknown, never a guess.

    Raises:
        ValueError: several options fit equally well, there are no options, or something is not a text.
    """
    words = _content(text_of(text, "the text"))
    described = _described(options)
    spread = Counter(word for content in described.values() for word in content)
    weight = {word: 1 / n for word, n in spread.items() if n < len(described) or len(described) == 1}
    # fsum is exact, so equal sums tie whatever the order of the words.
    scores = {name: math.fsum(weight.get(word, 0) for word in words & described[name]) for name in described}
    most = max(scores.values())
    best = [name for name, score in scores.items() if score == most]
    if most and len(best) > 1:
        raise ValueError(f"the text fits several options equally well: {', '.join(best)}")
    return best[0] if most else ""


def phrases_found(text: str, phrases: list[str], besides: list[str] | None = None) -> list[str]:
    """The phrases that occur in a text as whole words, in any case.

    Every word of a phrase may be singular or plural (s, es, ies; irregular plurals are phrases of their own)
    or have a possessive 's. A word with `~` at its end may also take -ed, -ing and -al: `rent~` finds rents,
    rented, renting and rentals. Between two words may stand any run of spaces, hyphens and underscores; `…`
    as a word of its own stands for none to four words of the same clause: `book … room`. Full-width and
    other compatibility characters are what they look like, invisible ones are left out.

    Args:
        text: the text to search.
        phrases: what to look for.
        besides: phrases that hold such a word and mean something else, like "car seat" for "car". Their
            words are taken out of the text first (with `…`, the words it stands for remain).

    Returns:
        The phrases that occur, as given and in the given order, each once.

    Raises:
        ValueError: something is not a text, or a phrase has no word, more than twenty, or a `~` that ends no word.
    """
    wanted, others = _texts(phrases, "phrases"), _texts(besides or [], "besides")
    words = _without(_tokens(text_of(text, "the text")), others)
    found = {phrase for phrase, _ in _matches(words, _lexicon(wanted))}
    return [phrase for phrase in dict.fromkeys(wanted) if phrase in found]


def topics_found(text: str, lexicon: dict[str, dict[str, str | list[str]]]) -> list[str]:
    """The topics of a lexicon that a text speaks of.

    Args:
        text: the text to search.
        lexicon: topic -> {"any": phrases of which one is enough, "together": a list of groups of phrases
            joined by "+", such as "rent~, hire + driver", of which one with something of every group is
            enough, "unless": phrases beside which no group counts (tires, beside the make of a car), "besides":
            phrases that hold such a word and mean something else}. Phrases are separated by commas, and
            written as for `phrases_found`; all but "any" may be left out.

    Returns:
        The topics, in the lexicon's order.

    Raises:
        ValueError: something is not a text, an entry has another key, no phrase that could be found, or an empty
            group, or "+" stands outside of "together".
    """
    words = _tokens(text_of(text, "the text"))
    return [topic for topic, entry in lexicon.items() if _speaks_of(words, topic, entry)]


def field(text: str, name: str, known: str | None = None) -> str:
    """The value of the one line `name: value` of a text; for a value that may have more lines, use `section`.

    Args:
        text: lines, of which one begins with the name and a colon. It may be indented or marked (`- name:`,
            `**Name**:`), the name is compared without case, its words may be joined by space, `_` or `-`, and
            what looks like a colon is one, as is `=`.
        name: the name of the field.
        known: the value where the host knows it; it wins, and the text is not read. None means it does not.

    Returns:
        The value, without the spaces around it, its characters as what they look like.

    Raises:
        ValueError: the text has no such line, or two or more (even equal ones: given twice is unknown); the value
            is empty; or it may go on: something follows that is no heading (`other name: …`), or it is unfinished.
    """
    if known is not None:
        value = text_of(known, f"the known {name!r}").strip()
    else:
        lines = text_of(text, "the text").splitlines()
        place, rest = _heading(lines, name)
        value = plain(rest).strip()
        if value and goes_on(value, lines[place + 1 :]):
            raise ValueError(f"the value of {name!r} continues after line {place + 1}, so it is unknown; see 'section'")
    if not value:
        raise ValueError(f"{name!r} is empty")
    return value


def section(text: str, name: str, until: list[str] | None = None) -> str:
    """The text under the heading `name:`, on its line and on those that follow, to the next heading.

    Args:
        text: lines, of which one begins with the name and a colon, written as for `field`.
        name: the name of the section.
        until: the headings of which one comes next, exactly once in the rest of the text; [] where the section
            goes to the end of the text. Name them wherever the text of the section is not the host's own: whoever
            writes it can also write a heading. None: to the next line of at most five words and a colon that is
            marked and indented as the section's own heading, or less; a list and what is indented more belong to
            the section, and so does a fenced code block, with all that looks like a heading in it.

    Returns:
        The text as it was written, without blank lines around it; of a section that is one fenced code block, the code.

    Raises:
        ValueError: the text has no such heading, or two or more; it cannot be told where the section ends; a code
            block in it does not end; or it is empty.
    """
    lines = text_of(text, "the text").splitlines(keepends=True)
    place, rest = _heading(lines, name)
    below = lines[place + 1 :]
    if until is None:
        end = _next_heading(lines[place], rest, below, name)
    else:
        end = _one_of(_texts(until, "until"), rest, below, name)
    body = without_fence("".join([rest.lstrip(" \t"), *below[:end]]))
    if not body.strip():
        raise ValueError(f"{name!r} is empty")
    return re.sub(r"\A(?:\s*[\r\n])?", "", body).rstrip()


def _heading(lines: Sequence[str], name: str) -> tuple[int, str]:
    """(place, rest of the line) of the one heading with a name."""
    wanted = name_of(text_of(name, "the name of a field"))
    found = [(at, parts[1]) for at, line in enumerate(lines) if (parts := split_line(line)) and is_named(parts, wanted)]
    if not found:
        raise ValueError(f"there is no line '{name}:'")
    if len(found) > 1:
        raise ValueError(f"{name!r} appears {len(found)} times, so it is unknown")
    place, rest = found[0]
    return place, unmarked(rest, lines[place])


def _next_heading(heading: str, rest: str, below: list[str], name: str) -> int:
    own = style_of(heading)
    for place in outside_code(below, rest):
        style = style_of(below[place])
        if style is None or (own and (style[0] > own[0] or (style[1] == LIST != own[1]))):
            continue
        if own is None or (style[0] == own[0] and style != own):
            raise ValueError(f"it is unclear whether {below[place].strip()[:60]!r} ends {name!r}; see 'until'")
        return place
    return len(below)


def _one_of(until: tuple[str, ...], rest: str, below: list[str], name: str) -> int:
    """The index of the one heading that ends the section; one within a code block may be an attack."""
    wanted = {name_of(one) for one in until}
    ends = [at for at, line in enumerate(below) if any(is_named(split_line(line), one) for one in wanted)]
    if len(ends) != bool(until):
        raise ValueError(
            f"{len(ends) or 'none'} of {', '.join(until)} follow {name!r}; expected exactly one, which ends it"
        )
    end = ends[0] if ends else len(below)
    for _ in outside_code(below[:end], rest):
        pass
    return end


def _texts(values: object, what: str) -> tuple[str, ...]:
    if not isinstance(values, list | tuple):
        raise ValueError(f"{what} must be a list of strings, not {type(values).__name__}")  # noqa: TRY004
    return tuple(text_of(value, f"each of {what}") for value in values)


def _speaks_of(words: list[str], topic: str, entry: dict[str, str | list[str]]) -> bool:
    if unknown := sorted(entry.keys() - {"any", "together", "unless", "besides"}):
        raise ValueError(f"topic {topic!r} has the key {unknown[0]!r}; expected any, together, unless, besides")
    alone, unless = (_listed(text_of(entry.get(key, ""), "phrases"), topic) for key in ("any", "unless"))
    together = [_groups(groups, topic) for groups in _texts(entry.get("together", []), "together")]
    if not all(phrases for groups in together for phrases in groups) or not (alone or together):
        raise ValueError(f"topic {topic!r} has no phrase, or a group without one, so it would never be found")
    left = _without(words, _listed(text_of(entry.get("besides", ""), "phrases"), topic))
    if _has(left, alone):
        return True
    return not _has(words, unless) and any(all(_has(left, phrases) for phrases in groups) for groups in together)


def _has(words: list[str], phrases: tuple[str, ...]) -> bool:
    return any(True for _ in _matches(words, _lexicon(phrases)))


# A program passes its lexicon with each call.
@lru_cache(maxsize=1024)
def _groups(groups: str, topic: str) -> tuple[tuple[str, ...], ...]:
    return tuple(_listed(group, topic) for group in _PLUS.split(groups))


@lru_cache(maxsize=1024)
def _listed(phrases: str, topic: str) -> tuple[str, ...]:
    listed = tuple(phrase.strip() for phrase in phrases.split(",") if phrase.strip())
    if any(_PLUS.search(phrase) for phrase in listed):
        raise ValueError(f"topic {topic!r} joins phrases by '+' outside of 'together'")
    return listed


def _without(words: list[str], phrases: tuple[str, ...]) -> list[str]:
    """The words, with those of the phrases blanked."""
    blanks = {place for _, places in _matches(words, _lexicon(phrases)) for place in places}
    return ["" if place in blanks else word for place, word in enumerate(words)]


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(plain(text).casefold())


def _matches(words: list[str], lexicon: dict[str, list[_Pattern]]) -> Iterator[tuple[str, list[int]]]:
    """Every phrase with the places of its words, for each place where it begins."""
    for start, word in enumerate(words):
        for phrase, steps in lexicon.get(word, ()):
            rest = _rest(words, start + 1, steps)
            if rest is not None:
                yield phrase, [start, *rest]


def _rest(words: list[str], at: int, steps: Sequence[_Step]) -> list[int] | None:
    if not steps:
        return []
    far, forms = steps[0]
    for place in _reach(words, at) if far else (at,):
        if place < len(words) and words[place] in forms:
            rest = _rest(words, place + 1, steps[1:])
            if rest is not None:
                return [place, *rest]
    return None


def _reach(words: list[str], at: int) -> Iterator[int]:
    yield at
    for place in range(at, min(at + _MOST_WORDS_BETWEEN, len(words) - 1)):
        if words[place] in _CLAUSE_ENDS:
            return
        yield place + 1


@lru_cache(maxsize=256)
def _lexicon(phrases: tuple[str, ...]) -> dict[str, list[_Pattern]]:
    """The phrases by the forms of their first word: one look-up per word of the text, not one per phrase."""
    lexicon: dict[str, list[_Pattern]] = {}
    for phrase in dict.fromkeys(phrases):
        first, *rest = _steps(phrase)
        for form in first[1]:
            lexicon.setdefault(form, []).append((phrase, tuple(rest)))
    return lexicon


def _steps(phrase: str) -> list[_Step]:
    steps: list[_Step] = []
    far = False
    for chunk in phrase.replace("...", "…").replace("…", " … ").split():
        if chunk == "…":
            far = True
            continue
        words = _tokens(chunk.removesuffix("~"))
        if "~" in words or (chunk.endswith("~") and not words):
            raise ValueError(f"the phrase {phrase!r} must have '~' only at the end of a word")
        for place, word in enumerate(words, 1):
            folds = chunk.endswith("~") and place == len(words)
            steps.append((far, frozenset(_verb_forms(word) if folds else _noun_forms(word))))
            far = False
    _require_words(phrase, steps, ends_open=far)
    return steps


def _require_words(phrase: str, steps: list[_Step], *, ends_open: bool) -> None:
    if not steps or steps[0][0] or ends_open:
        raise ValueError(f"the phrase {phrase!r} must begin and end with a word")
    # More gaps would multiply the ways to read one place.
    if len(steps) > _MOST_WORDS_OF_A_PHRASE or sum(far for far, _ in steps) > 3:
        raise ValueError(f"the phrase {phrase[:40]!r} is too long: expected at most 20 words and three '…'")


def _noun_forms(word: str) -> set[str]:
    word = word.removesuffix("'s")
    base = {word} | _singulars(word)
    plurals = {plural for form in base if _inflects(form) for plural in _plurals(form)}
    return base | plurals - word_set(_NOT_A_PLURAL) | {f"{form}'s" for form in base}


def _verb_forms(word: str) -> set[str]:
    forms = _noun_forms(word)
    for stem in _verb_stems(word):
        # tried and trial, but trying
        other = stem[:-1] + "i" if _CONSONANT_Y.search(stem) else stem
        forms |= {stem + "ing", stem + "ings", other.removesuffix("e") + "ed", other + "al", other + "als"}
    return forms


def _verb_stems(word: str) -> set[str]:
    """The stems before -ing: shop doubles its consonant, cancel may, rent does not, hire loses its e."""
    if not _SHORT_VOWEL.search(word):
        return {word.removesuffix("e") if not word.endswith(("ee", "oe", "ye")) else word}
    doubled = word + word[-1]
    return {doubled} if len(re.findall("qu|[aeiouy]+", word)) == 1 else {word, doubled}


def _inflects(word: str) -> bool:
    # Below three letters only abbreviations have a plural: TVs and PCs, but "as" is none of "a".
    if not word.isalpha() or word in word_set(_NO_PLURAL) or len(word) == 1:
        return False
    return len(word) > 2 or not re.search("[aeiouy]", word)


def _plurals(word: str) -> set[str]:
    if _CONSONANT_Y.search(word):
        return {word[:-1] + "ies"}
    if word.endswith("o"):
        return {word + "s", word + "es"}
    return {word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")}


def _singulars(word: str) -> set[str]:
    """The possible singulars of a plural; empty for any other word."""
    if len(word) < 4 or word in word_set(_NOT_A_PLURAL) or not re.search("[^sui]s$", word):
        return set()
    if word.endswith("ies"):
        return {word[:-1], word[:-3] + "y"}
    return {word[:-1], word[:-2]} if re.search("(?:[sxzo]|ch|sh)es$", word) else {word[:-1]}


def _described(options: object) -> dict[str, set[str]]:
    if isinstance(options, dict):
        pairs = [(text_of(name, "an option"), f"{name} {text_of(options[name], 'a description')}") for name in options]
    else:
        pairs = [(option, option) for option in _texts(options, "the options")]
    if not pairs:
        raise ValueError("there are no options to choose from")
    return {name: _content(description) for name, description in pairs}


def _content(text: str) -> set[str]:
    return {_stem(word) for word in _tokens(text) if word[0].isalnum() and word not in word_set(_FUNCTION_WORDS)}


def _stem(word: str) -> str:
    """The word without its inflection, for comparing: not always a word (browse and browsing are brows)."""
    word = re.sub("'s$|(?<=..[^s])s$", "", word)
    stem = re.sub("(?<=...)(?:ing|ed|al)$", "", word)
    if stem != word and re.search("^[^aeiou]+[aeiou][^aeiouwxy]$", stem):
        stem += "e"  # hiring: of hire; shopping has another p
    stem = re.sub(r"([^aeiouls])\1$", r"\1", stem)
    return re.sub("(?<=....)e$|(?<=..[xz])e$", "", re.sub("(?:ie|y)$", "i", stem))
