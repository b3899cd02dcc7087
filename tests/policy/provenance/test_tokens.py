"""Tokens: one kind each, however they are spelled, and in linear time."""

from __future__ import annotations

import time
from base64 import b64encode
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardagent.policy.provenance.tokens import Scanner, SourceToken
from tests.tiers import examples, slow_but_every

SCANNER = Scanner(["ab-[0-9]+"])
SPELLINGS: dict[str, list[str]] = {
    "eve@evil.com": [
        "EVE@Evil.com",
        "mailto:eve@evil.com,",
        "<eve@evil.com>",
        "eve%40evil.com",
        "eve%2540evil.com",
        "eve&#64;evil.com",
        "eve&commat;evil.com",
        "e\u200bve@ev\u00adil.com",
        "\uff45\uff56\uff45\uff20\uff45\uff56\uff49\uff4c\uff0e\uff43\uff4f\uff4d",
        "eve [at] evil [dot] com",
        "eve(at)evil.com",
        "\\u0065ve@evil.com",
        b64encode(b"send it to eve@evil.com").decode(),
        b64encode(b64encode(b"send it to eve@evil.com")).decode(),
    ],
    "www.evil.com": ["https://www.evil.com/x?a=b", "http://user:pass@WWW.evil.com:8080/", "ftp://www.evil.com"],
    "bücher.example": ["http://xn--bcher-kva.example/", "http://BÜCHER.example"],
    "de89370400440532013000": ["DE89370400440532013000", "DE89 3704 0044 0532 0130 00"],
    "491512345678": ["+49 151 2345678", "+49 (151) 234-5678", "0049 151 2345678", "+491512345678"],
    "1234": ["1234", "1,234.00", "1.234,00", "01234", "1234.0", "€1,234", "١٢٣٤"],
    "1234.5": ["1,234.50", "1.234,5", "1234.5"],
    "/home/ann/key.pem": ["/home/ann/key.pem", "/home//ann/./key.pem.", "\\home\\ann\\key.pem",
        "cat /home/ann/key.pem;"],
    "docs/key.pem": ["see docs/key.pem", "./docs/key.pem"],
    "sk-live-ab3xk9lm": ["sk-live-aB3xK9Lm", "key:sk-live-aB3xK9Lm,", "(sk-live-aB3xK9Lm)"],
    "550e8400-e29b-41d4-a716-446655440000": ["550E8400-E29B-41D4-A716-446655440000."],
    "4111111111111111": ["4111 1111 1111 1111", "4111-1111-1111-1111", "4111111111111111"],
    "evil.com": ["evil.com", "evil.com/a?b=c", "<evil.com>", "https://evil.com", "evil[.]com", "evil\u3002com"],
    "ab-17": ["ab-17", "(ab-17)"],
}  # fmt: skip


def flat(tokens: tuple[SourceToken, ...]) -> set[str]:
    return {reading for token in tokens if token.identifies for reading in (*token.readings, *flat(token.parts))}


@pytest.mark.parametrize(("token", "text"), [(token, text) for token, texts in SPELLINGS.items() for text in texts])
def test_spellings_of_a_token(token: str, text: str) -> None:
    """Each is recorded, and found, alone and inside longer text."""
    for whole in (text, f"please use {text} now", f'{{"a": "{text}"}}' if '"' not in text else text):
        assert token in SCANNER.recorded([whole])
        assert token in flat(SCANNER.read(whole).tokens)


@pytest.mark.parametrize(
    "text",
    [
        "hello there",
        "and/or 24/7",
        "at 10:30",
        "e.g. this one",
        "",
        "12.5 km",
        "Ann Lee's",
        "x" * 200,
        "24-hour",
        "3-year-old",
        "covid-19",
        "b2b-marketing",
        "mp3-to-mp4",
        "iPhone15Pro",
        "report.pdf",
        "fine.The end",
        "1st-quarter",
    ],
)
def test_prose_has_no_tokens(text: str) -> None:
    assert not [token for token in SCANNER.read(text).tokens if token.identifies]


VALUES = [
    "?q={}",
    "https://a.example/?a=1&m={}",
    "m={}",
    "x=1;y={}&z=2",
    "<a href={}>",
    "?q=hello+{}",
    "#u={}",
    "?to={}#end",
    "m={} status=ok",
    "at=10:30 a.b={};",
]


@pytest.mark.parametrize("around", VALUES)
@pytest.mark.parametrize(
    "value", ["eve@evil.com", "eve%40evil.com", "sunshine99", "/home/ann/key.pem", "@eve_x", "4711-0815"]
)
def test_values_are_read_alone(around: str, value: str) -> None:
    """A value that was read in a query or after `name=` is found alone, and the other way round."""
    known, text = SCANNER.read(value.replace("%40", "@")), around.format(value)
    assert SCANNER.recorded([text]) & {*known.keys, *(key for token in known.tokens for key in token.readings)}
    inner = {key for token in SCANNER.read(text).tokens for key in (*token.readings, *token.within)}
    assert inner & SCANNER.recorded([value])


@pytest.mark.parametrize(
    "text", ["name=Ann Secret", "id=7 name=Ann Secret", "name=Ann+Secret&id=7", "<b id=7>Ann Secret</b>"]
)
def test_values_of_several_words_are_recorded(text: str) -> None:
    """Their names are not: many texts have the same."""
    recorded = SCANNER.recorded([text])
    assert "ann secret" in recorded
    assert "name" not in recorded


@pytest.mark.parametrize(
    "text", ["a = b", "x == y && z", "1 + 1 = 2", "key=", "=value", "a=1&b=2", "https://a.example/?page=2"]
)
def test_short_values_are_no_tokens(text: str) -> None:
    """Nothing in them says where they come from."""
    url = {"https://a.example/?page=2", "a.example"}
    assert {key for token in SCANNER.read(text).tokens if token.identifies for key in token.readings} <= url


WORDS = st.sampled_from(
    [
        *(text for texts in SPELLINGS.values() for text in texts),
        *"and the GB29 NWBK 7 12 2024-11-03 10.0.0.12 a/b , + ( x@ ://".split(),
    ]
)


@settings(max_examples=examples(100))
@given(st.lists(WORDS, max_size=8), st.sampled_from([" ", ", ", "\n", ""]))
def test_recorded_tokens_are_found(words: list[str], between: str) -> None:
    """Every token that a lookup of the same text reads was recorded, so that nothing recorded seems new."""
    text = "- " + between.join(words)  # more than a URL, in which line breaks do not count
    reading = SCANNER.read(text)
    assert flat(reading.tokens) | set(reading.keys) <= SCANNER.recorded([text])


HOSTILE = ["a", "a ", "a.", "1(", "/a", "aa11 ", "a@a.", "x@", "%41", "&#64;", "[at]", "(1", "a-", "http://", " ", "\n"]
HOSTILE += ["1.1.", "\u200ba", "aA1+", "://", "1 ", "a/", "xn--a.", "1,"]
HOSTILE += [
    "a=",
    "=+",
    "a&b=",
    "a.com,",
    "a1b2c3d4",
    "a1#b",
    "\U000e0061",
    "1'1",
    "1 234",
    "-1 ",
    "http://a.com/a1/",
    "abcd ",
]


@pytest.mark.parametrize("text", slow_but_every(3, HOSTILE))
def test_hostile_text_takes_linear_time(text: str) -> None:
    """Ten times the text takes about ten times as long: far less than a hundred times."""

    def seconds(size: int) -> float:
        best = 9.0
        for _ in range(3):
            started = time.process_time()
            SCANNER.recorded([text * (size // len(text))])
            Scanner().read(text * (size // len(text)))
            Scanner().runs(text * (size // len(text)))
            deque(Scanner().sought_runs(text * (size // len(text)), bool))
            best = min(best, time.process_time() - started)
        return best

    assert seconds(100_000) < 40 * max(seconds(10_000), 0.001)
