"""toolbox/text.py: fields, phrases and the best of some options."""

from __future__ import annotations

import re
import timeit
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.sandbox.toolbox import Toolbox

TOOLS = Toolbox.load().functions
classify, phrases_found, field = TOOLS["classify"], TOOLS["phrases_found"], TOOLS["field"]
topics_found = TOOLS["topics_found"]

TASKS = {
    "car": "buy, rent or find a car or truck",
    "media": "search for movies, music or videos",
    "hotel": "book a hotel room",
    "job": "apply for a job",
}


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("Renting trucks near Leeds", "car"),
        ("Watch a movie about cars and music", "media"),
        ("Booking of two rooms", "hotel"),
        ("apply to JOBS", "job"),
        ("Look at the moving sea", ""),  # moving is not movie, and "the" says nothing
        ("a or for", ""),
        ("", ""),
    ],
)
def test_classify(text: str, option: str) -> None:
    """The option with the most telling words wins; where none fits, there is no guess."""
    assert classify(text, TASKS) == option
    assert classify(text, list(TASKS.values())) == TASKS.get(option, "")


def test_a_word_counts_less_the_more_options_have_it() -> None:
    """A word of all options says nothing, a word of one outweighs a word of two."""
    options = ["red paint shop", "red glass shop", "green glass shop"]
    assert classify("which shop", options) == ""
    assert classify("paint on glass", options) == "red paint shop"
    assert classify("the shop", ["a shop"]) == "a shop"


def test_options_that_fit_equally_well() -> None:
    """A tie is an error, not a guess."""
    with pytest.raises(ValueError, match="equally well: hotel, job"):
        classify("a job in a hotel", TASKS)


@pytest.mark.parametrize("options", [[], {}, "abc", None, [1], {"a": 1}, {1: "a"}])
def test_classify_needs_options(options: Any) -> None:
    """Without options, or with options that are no texts, there is nothing to judge."""
    with pytest.raises(ValueError, match=r"option|description"):
        classify("text", options)


@given(st.text(), st.lists(st.text(), min_size=1))
def test_classify_gives_an_option_or_nothing(text: str, options: list[str]) -> None:
    """Any text can be classified, unless it fits several."""
    try:
        assert classify(text, options) in ["", *options]
    except ValueError as error:
        assert "equally well" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("text", "phrases", "expected"),
    [
        ("Two CARS, one box.", ["car", "boxes", "cart"], ["car", "boxes"]),
        ("a scarcity of carpets", ["car", "pet"], []),
        ("countries and movies", ["country", "movie"], ["country", "movie"]),
        ("photos and potatoes", ["photo", "potato"], ["photo", "potato"]),
        ("the news as a bus", ["new", "a bus", "gas"], ["a bus"]),
        (
            "drivers' lounge, driver's seat",
            ["driver seat", "driver's lounge", "drive"],
            ["driver seat", "driver's lounge"],
        ),
        ("pick-up or drop  -\n off", ["pick up", "drop-off", "pickup"], ["pick up", "drop-off"]),
        ("bed & breakfast at 3.5%", ["bed & breakfast", "5", "3.5"], ["bed & breakfast", "3.5"]),
        ("car. Seat", ["car seat"], []),
        ("renting a rental, rented", ["rent", "rent~"], ["rent~"]),
        ("rents", ["rent", "rent~"], ["rent", "rent~"]),
        ("shopping, hiring, tried, cancelled", ["shop~", "hire~", "try~", "cancel~"], None),
        ("caring", ["car~"], []),
        ("book a nice quiet room", ["book … room", "book room"], ["book … room"]),
        ("book one two three four five room", ["book … room"], []),
        ("book a table, clean a room", ["book ... room"], []),
        ("book the very best big room room", ["book … room"], ["book … room"]),
        ("\uff23\uff21\uff32", ["car"], ["car"]),
        ("c\u00ada\u200br", ["car"], ["car"]),
        ("the car\u2019s door", ["car door"], ["car door"]),
        ("straße STRASSE", ["strasse"], ["strasse"]),
        ("rent_car", ["rent car"], ["rent car"]),
        ("b a", ["a", "b", "a"], ["a", "b"]),
        ("anything", [], []),
    ],
)
def test_phrases_found(text: str, phrases: list[str], expected: list[str] | None) -> None:
    """Whole words in any case and number, in the order of the lexicon; `None` means all of them."""
    assert phrases_found(text, phrases) == (phrases if expected is None else expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a car seat and a gift-card", []),
        ("a car seat for a car", ["car"]),
        ("Car Seats", []),
        ("sell my car today", []),
        ("sell my truck, then a car", ["car", "truck"]),
        ("sell the truck car", ["truck"]),  # the words that … stands for are not taken out
    ],
)
def test_besides(text: str, expected: list[str]) -> None:
    """Only the words of a `besides` phrase are removed from the text."""
    assert phrases_found(text, ["car", "truck"], ["car seat", "gift card", "sell … car"]) == expected


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("a car", ["car"]),
        ("renting with a driver", ["car"]),
        ("hire a car seat", []),
        ("a driver", []),
        ("a hotel, then cars", ["car", "hotel"]),
        ("renting tires with a driver", []),
        ("a series on disney+", ["media"]),
    ],
)
def test_topics_found(text: str, topics: list[str]) -> None:
    """One phrase, or one of each group that belongs together, outside of what means something else."""
    car = {"any": "car, truck", "together": ["rent~, hire + driver"], "unless": "tire", "besides": "car seat"}
    assert (
        topics_found(text, {"car": car, "hotel": {"any": "hotel"}, "media": {"together": ["disney+, max + series"]}})
        == topics
    )
    with pytest.raises(ValueError, match="expected any, together, unless, besides"):
        topics_found(text, {"car": {"all": "car"}})


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"besides": "car seat"},
        {"any": " , "},
        {"any": "car", "together": ["rent~ + "]},
        {"any": "rent~, hire + driver"},
        {"any": "car", "besides": "car + seat"},
    ],
)
def test_topics_that_could_never_be_found(entry: dict[str, Any]) -> None:
    """A topic without phrases, or with joined ones in the wrong place, is a mistake and no topic that is absent."""
    with pytest.raises(ValueError, match="topic 'x'"):
        topics_found("renting a car with a driver", {"x": entry})


@pytest.mark.parametrize(
    "arguments",
    [
        (1, ["a"]),
        ("a", "a"),
        ("a", [None]),
        ("a", [""]),
        ("a", ["… room"]),
        ("a", ["room …"]),
        ("a", ["a … b … c … d … e"]),
        ("a", ["a " * 21]),
        ("a", ["re~nt"]),
        ("a", ["rent ~"]),
        ("a", ["rent~~"]),
        ("a", ["a"], "car"),
    ],
)
def test_phrases_that_cannot_be_judged(arguments: tuple[Any, ...]) -> None:
    """A phrase without a word would be found nowhere: it is an error instead."""
    with pytest.raises(ValueError, match=r"must|too long"):
        phrases_found(*arguments)


WORDS = st.lists(st.sampled_from(["car", "cars", "seat", "bus", "Buses", "city", "cities", ",", "-", "x"]), max_size=12)
PHRASES = st.lists(st.sampled_from(["car", "car seat", "seat car", "bus", "city bus", "city", "x x"]), max_size=4)
FORMS = {"car": "cars?", "seat": "seats?", "bus": "bus(?:es)?", "city": "cit(?:y|ies)", "x": "xe?s?"}


def naive(text: str, phrases: list[str], besides: list[str]) -> list[str]:
    def pattern(phrase: str) -> str:
        return r"\b" + r"[\s-]+".join(FORMS[word] for word in phrase.split()) + r"\b"

    blanked = list(text)
    for phrase in besides:
        for match in re.finditer(f"(?=({pattern(phrase)}))", text, re.IGNORECASE):
            blanked[match.start() : match.end(1)] = "#" * (match.end(1) - match.start())
    return [p for p in dict.fromkeys(phrases) if re.search(pattern(p), "".join(blanked), re.IGNORECASE)]


@given(WORDS, PHRASES, PHRASES)
def test_phrases_agree_with_a_naive_search(words: list[str], phrases: list[str], besides: list[str]) -> None:
    """One search per phrase in the blanked text gives the same."""
    text = " ".join(words)
    assert phrases_found(text, phrases, besides) == naive(text, phrases, besides)


def test_phrases_are_fast() -> None:
    """A task of 150 characters takes well under 0.3 ms, and 200 kB of one phrase's words no more than seconds."""
    phrases = [f"{thing} {kind}" for thing in ("car", "hotel", "flight", "job") for kind in range(10)]
    task = ("Find a hotel with a car park near the airport and book a room for two adults " * 2)[:150]
    once = min(timeit.repeat(lambda: phrases_found(task, phrases, ["car seat"]), number=20, repeat=10)) / 20
    assert once < 0.0003
    for text in ("car " * 50_000, "a" * 200_000, "-" * 200_000):
        assert timeit.timeit(lambda: phrases_found(text, ["car … seat … x", *phrases]), number=1) < 5  # noqa: B023


@pytest.mark.parametrize(
    "text",
    [
        "Role: nurse",
        "x\n  ROLE : nurse  \ny: z",
        "role\uff1anurse",
        "Roles: a\r\nRole:nurse\x0bother: b",
        "x\u2028role: nurse",
    ],
)
def test_field(text: str) -> None:
    """One line with the name, in any case and with any colon."""
    assert field(text, "Role") == "nurse"


def test_field_keeps_colons_of_the_value_and_prefers_what_is_known() -> None:
    """Only the first colon separates; the host's value wins over any text."""
    assert field("Time: 10:30", "time") == "10:30"
    assert field("Role: nurse\nRole: physician", "role", " clerk ") == "clerk"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Question: what role: x?", "there is no line 'Role:'"),
        ("", "there is no line 'Role:'"),
        ("Role: a\nrole : a", "'Role' appears 2 times"),
        ("Role:  ", "'Role' is empty"),
        (None, "must be a string"),
    ],
)
def test_unknown_fields(text: Any, message: str) -> None:
    """Missing, given twice and empty are unknown, and the message says which."""
    with pytest.raises(ValueError, match=message):
        field(text, "Role")


@pytest.mark.parametrize("known", ["", " ", 1, False])
def test_a_known_value_must_be_a_text(known: Any) -> None:
    """An empty fact does not fall back to the text."""
    with pytest.raises(ValueError, match="Role"):
        field("Role: nurse", "Role", known)
