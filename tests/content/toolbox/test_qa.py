"""toolbox/qa.py: roots, lengths, numbers, animals and risk levels."""

from __future__ import annotations

import timeit
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.sandbox.toolbox import Toolbox
from tests.tiers import slow_but_every

TOOLS = Toolbox.load().functions
same_root_choices, word_count, risk_level = TOOLS["same_root_choices"], TOOLS["word_count"], TOOLS["risk_level"]
numbers_mentioned, animals_mentioned = TOOLS["numbers_mentioned"], TOOLS["animals_mentioned"]

# Each line is one root.
FAMILIES = """
eye eyes|slow slowly slower|run running runs ran runner|study studies studied studying|box boxes|city cities
happy happily happiness happier|move moving moved movement mover|big bigger biggest|hero heroes|bus buses
care careful carefully careless caring cared|teach teacher teaching taught|child children|knife knives|foot feet
write writes writing writer written wrote|bake baker baking|dance dancing dancer|hope hoping hopeful hopeless
hop hopping hopped|fall falling fell|add adding|travel travelling traveled traveller|act action actor active
educate education educator|inform information informed|explore explorer exploration|operate operation operator
beauty beautiful beautifully|ill illness|home homeless|pay payment paid|enjoy enjoyable enjoyment|rain rainy raining
sun sunny|luck lucky luckily|simple simply simpler|possible possibly|basic basically|day daily|real really
music musical|nation national|danger dangerous|nature natural|wonder wonderful|offer offered|number numbers numbered
easy easily easier|new newer newest|age aging|die dying died|carry carried carrier|fly flies flying|person people
movie movies|tie ties|use using user useful|agree agreed agreement|value valuable|change changing|dog dog's dogs
have has had having|do does did|be been being|go goes going gone|quiz quizzes|hunger hungry|type typing|judge judgment
"""
# Each line's words have different roots.
STRANGERS = """
new news|be bee|universe university|flow flower|corn corner|show shower|numb number|tow tower|care car|hope hop
plan plane|star stare|bus busy business|part party|count county country|moth mother|broth brother|both bother
wand wander|but butter|let letter|mat matter|sum summer|din dinner|ham hammer|bet better|bit bitter|ear early
rep reply|app apply|even evening|her herring|rug rugged|pig pigment|apart apartment|rat ration|lot lotion|not notion
pot potion|miss mission|pass passion|port portion|quest question|fact factor|past paste pastor|for forest|temp tempest
wit witness|use us|as ass|to too two|no not now know|in inn inner|king kin|live liver|stud study|store story|man many
bar bare|win wine|wed wedding|fur far|capital cap|tin tiny|on only one|sever several|fun funeral|late lateral|a an
"""
FAMILY_LIST = [family.split() for family in FAMILIES.strip().replace("\n", "|").split("|")]
STRANGER_LIST = [strangers.split() for strangers in STRANGERS.strip().replace("\n", "|").split("|")]


def same_root(first: str, other: str) -> bool:
    return bool(same_root_choices({"A": first, "B": other}))


@pytest.mark.parametrize("family", FAMILY_LIST, ids=lambda family: family[0])
def test_one_root(family: list[str]) -> None:
    """Inflections and the usual derivations of a word share its root."""
    assert [word for word in family if not same_root(family[0], word)] == []


@pytest.mark.parametrize("strangers", STRANGER_LIST, ids=lambda strangers: strangers[0])
def test_different_roots(strangers: list[str]) -> None:
    """Words that only look like a form of one another do not."""
    pairs = [(stranger, other) for stranger in strangers for other in strangers if stranger < other]
    assert [pair for pair in pairs if same_root(*pair)] == []


@given(st.text(alphabet="abcdefghiklmnoprstuvy'", min_size=1, max_size=12).filter(lambda word: word.strip("'")))
def test_a_word_has_the_root_of_itself(word: str) -> None:
    """Whatever the word, and in any case."""
    assert same_root(word, word.upper())


@pytest.mark.parametrize(
    ("choices", "shared"),
    [
        (["soft things", "a thumb", "have no coat", "have no hat", "measles"], "CD"),
        (["work to win", "matter to", "sleep", "eat", "sing"], "AB"),
        (["a boat", "a dock", "harbour", "a lighthouse", "beach"], "ABD"),
        (["big big dog", "cat", "hen", "cow", "pig"], ""),
        (["well-known", "as well", "KNOW\u2019s", "no", "nose"], "ABC"),
        (["caf\u00e9", "cafe\u0301s", "\uff43\uff41\uff52", "cars", "tea"], "ABCD"),
        (["one", "1", "1st", "first", "1,000 1"], "BE"),
    ],
)
def test_same_root_choices(choices: list[str], shared: str) -> None:
    """Function words count; a word twice in one choice does not."""
    assert "".join(same_root_choices(dict(zip("ABCDE", choices, strict=True)))) == shared


@pytest.mark.parametrize("choices", [{}, [], {"A": 1}, {"A": "hat", "B": ""}, {"A": "..."}])
def test_choices_that_cannot_be_judged(choices: Any) -> None:
    """A choice without a word is unknown."""
    with pytest.raises(ValueError, match="choice"):
        same_root_choices(choices)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("one", 1),
        ("Don't  go\thome, well-known 1,000 - times \u2014 .", 6),
        ("a\nb ?", 2),
        ("caf\u00e9 \u65e5\u672c", 2),
        ("a\u200bb\u2028c", 3),
    ],
)
def test_word_count(text: str, count: int) -> None:
    """Words as a person counts them."""
    assert word_count(text) == count


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Five of 2 and THREE, then 2", [2, 3, 5]),
        ("(1) #4 $5 5% 3. 2, 1-5", [1, 2, 3, 4, 5]),
        ("15 51 0 6 7 1.5 2,000 .5 v1.2 1/2 4\u204424 \u00bd 3:30 -1", []),
        ("1,2,3", [1, 2, 3]),
        ("1st 2nd 3rd 5th first second fourth", []),
        ("B2 3D 4x4 r2d2 x\u00b2", []),
        ("5km at 3pm, 4-year-old", [3, 4, 5]),
        ("twenty-one, thirty two, five hundred, one hundred and five, two dozen, three million", []),
        ("four ten-year-olds on a one-way street", [1, 4]),
        ("two thirds, one-half, three-quarters, four and a half", []),
        ("no one, someone, one another, one's, often, tone", []),
        ("this one, that one", [1]),
        ("\uff15 and \u2463", [4, 5]),
        ("\u0663 and \u0967, not \u0661\u0662", [1, 3]),
        ("", []),
    ],
)
def test_numbers_mentioned(text: str, numbers: list[int]) -> None:
    """Whole numbers from one to five that stand on their own, as digits or words."""
    assert numbers_mentioned(text) == numbers


@given(st.integers(0, 10**6), st.sampled_from(["{}", "I have {} hats.", "({})", "{}km", "the {}-year-old"]))
def test_only_one_to_five_count(number: int, frame: str) -> None:
    """A digit within a larger number is none."""
    assert numbers_mentioned(frame.format(number)) == ([number] if 1 <= number <= 5 else [])


@pytest.mark.parametrize(
    ("text", "animals"),
    [
        ("A cat, two Dogs and the wolves' mice", ["cat", "dog", "wolf", "mouse"]),
        ("guinea pigs, polar-bears and birds of prey", ["guinea pig", "polar bear", "bird of prey"]),
        ("What animals or insects are pets?", ["animal", "insect", "pet"]),
        ("ca\u200bt \uff44\uff4f\uff47 the hen\u2019s", ["cat", "dog", "hen"]),
        ("category, dogma, catfish, fishing, scatter", ["catfish"]),
        ("The bear ate; to bear; I can't bear it; parents bear it; bear in mind; the bear market", ["bear"]),
        ("A fly! Can it fly? Time flies, planes fly, on the fly", ["fly"]),
        ("She ducks. A duck quacks.", ["duck"]),
        ("He will swallow. A swallow sings.", ["swallow"]),
        ("baseball bats, teddy bears, hot dogs, a flea market, a spelling bee", []),
        ("the bat in the cave", ["bat"]),
        ("We flew to Turkey in a Jaguar with Robin", []),
        ("TURKEY. Turkey is roasted; the jaguar", ["turkey", "jaguar"]),
        ("The RAM of a computer", []),
        ("THE RAM", ["ram"]),
        ("a ram", ["ram"]),
        ("play cricket, hear a cricket", ["cricket"]),
        ("computer mouse, piggy bank, rat race", []),
        ("kids with a kite and a boxer", []),
        ("its bear, his duck, was fly", ["bear", "duck", "fly"]),
        ("to the store. Bear tracks", ["bear"]),
        ("", []),
    ],
)
def test_animals_mentioned(text: str, animals: list[str]) -> None:
    """In the order of mention, unless a neighbour shows another sense."""
    assert animals_mentioned(text) == animals


def test_risk_level() -> None:
    """One level for each number of violations of four rules."""
    levels = [risk_level(violations) for violations in range(5)]
    assert levels == ["no risk", "low risk", "medium risk", "high risk", "very high risk"]


@pytest.mark.parametrize("violations", [-1, 5, 1.0, True, "1", None])
def test_no_risk_level(violations: Any) -> None:
    """Anything else is no number of violations."""
    with pytest.raises(ValueError, match="0 to 4"):
        risk_level(violations)


@pytest.mark.parametrize("function", [word_count, numbers_mentioned, animals_mentioned])
def test_only_texts_are_read(function: Any) -> None:
    """A missing question is unknown, not one without numbers or animals."""
    with pytest.raises(ValueError, match="must be a string, not NoneType"):
        function(None)


@pytest.mark.parametrize("function", [word_count, numbers_mentioned, animals_mentioned])
@pytest.mark.parametrize(
    "part", slow_but_every(3, ["one ", "twenty-", "1", "1.", "dog ", "a'", "hundred and ", "\u00bd"])
)
def test_long_texts(function: Any, part: str) -> None:
    """Time grows with the length of the text, not faster."""
    assert timeit.timeit(lambda: function(part * (200_000 // len(part))), number=1) < 5
