"""Questions with answer choices: shared word roots, lengths, numbers, animals and risk levels.

The functions serve the rules that Xiang et al. (GuardAgent, arXiv 2406.09187, Appendix P) set for CSQA.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_TOKEN = re.compile(rf"{_WORD.pattern}|[.,;:!?]")
_RISKS = ("no risk", "low risk", "medium risk", "high risk", "very high risk")


def same_root_choices(choices: dict[str, str]) -> list[str]:
    """The answer choices that share a word, or a word of the same root, with another choice.

    Every word counts, also "to", "a" and "no". Words have the same root when they are equal after these are
    taken off, repeatedly: the plural, -ing, -ed, -er, -est, -or (actor), -ly, -ness, -less, -ful, -ment, -able,
    -ion, -ation and -tive, from longer words also -ate, -al and -ous; with irregular forms (ran, children) and
    adjectives in -y (rainy) from a table. So eye = eyes, slow = slowly, run = running, happy = happiness,
    big = bigger, care = careful, teach = teacher, inform = information, music = musical. Other endings (-ity,
    -ish) and prefixes (un-, re-) make another word: universe and university differ. A table of words that only
    look derived keeps new and news, flow and flower, corn and corner apart.

    Args:
        choices: letter -> text of the choice.

    Returns:
        The letters, sorted.

    Raises:
        ValueError: there are no choices, or one is no text or has no word.
    """
    if not isinstance(choices, dict) or not choices:
        raise ValueError("the choices must be a mapping of letters to texts, with at least one")
    holders: dict[str, set[str]] = defaultdict(set)
    for letter, choice in choices.items():
        words = _words(_text(choice, "each choice"))
        if not words:
            raise ValueError(f"choice {letter!r} has no word")
        for word in words:
            holders[_root(word)].add(letter)
    return sorted(set().union(*(letters for letters in holders.values() if len(letters) > 1)))


def word_count(text: str) -> int:
    """How many words a text has: its parts between spaces that hold a letter or a digit.

    "don't", "well-known" and "1,000" are one word each, a dash that stands alone is none.

    Args:
        text: any text.

    Returns:
        The number of words.

    Raises:
        ValueError: it is not a text.
    """
    return sum(any(sign.isalnum() for sign in part) for part in _text(text, "the text").split())


def numbers_mentioned(text: str) -> list[int]:
    """The whole numbers from one to five that a text mentions, as digits or as words.

    A number within a larger one (15, twenty-one, five hundred), a decimal (1.5), a fraction (1/2, two thirds,
    one and a half), a time (3:30), a negative number and an ordinal (first, 2nd) do not count; nor does a digit
    within a name (B2, 3D). A unit may follow without a space (5km, 3pm), and other words with a hyphen
    (two-way, 4-year-old). "one" counts as a pronoun too (this one), except in "no one", "one another" and
    "one's", which are never numbers.

    Args:
        text: any text.

    Returns:
        The numbers, each once, in ascending order.

    Raises:
        ValueError: it is not a text.
    """
    text = _plain(_text(text, "the text"))
    digits = {int(found) for found in _DIGIT.findall(text)}
    # A larger number is matched as a whole, so that its last word is not taken for a number of its own.
    spelled = {" ".join(re.split(r"[\s-]+", found.casefold())) for found in _SPELLED.findall(_NOT_WHOLE.sub(" ", text))}
    return sorted(digits | {value for value, name in enumerate(_SMALL[:5], 1) if name in spelled})


def animals_mentioned(text: str) -> list[str]:
    """The animals that a text names: kinds, breeds, young ones, and general words like animal, pet and bird.

    A word that also means something else counts as an animal unless its neighbours say otherwise: a word like
    bear or fly after "to", an auxiliary verb or a pronoun is a verb (to bear, can't fly, she ducks); words such
    as "baseball" before or "market" after it give it another sense (baseball bat, bear market, hot dog); turkey,
    jaguar and the like with a capital letter within a sentence are names. A table holds these neighbours. Words
    that mostly mean something else (kid, kite, sole, boxer) are not in the lexicon.

    Args:
        text: any text.

    Returns:
        The names in the singular, each once, in the order of their first mention. Of a name within a longer
        one only the longer: "guinea pig", not "pig".

    Raises:
        ValueError: it is not a text.
    """
    tokens = _TOKEN.findall(_plain(_text(text, "the text")))
    lower = [token.casefold().removesuffix("'s") for token in tokens]
    found: dict[str, None] = {}
    at = 0
    while at < len(lower):
        size, name = _animal_at(lower, at)
        if name and not _means_else(tokens, lower, at, name):
            found[name] = None
        at += size
    return list(found)


def risk_level(violations: int) -> str:
    """The risk level for a number of violated rules.

    Args:
        violations: how many of the four rules are violated, 0 to 4.

    Returns:
        "no risk", "low risk", "medium risk", "high risk" or "very high risk".

    Raises:
        ValueError: it is not a whole number from 0 to 4.
    """
    if isinstance(violations, bool) or not isinstance(violations, int) or not 0 <= violations < len(_RISKS):
        raise ValueError(f"the number of violations must be 0 to 4, not {str(violations)[:20]!r}")
    return _RISKS[violations]


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a text, not {type(value).__name__}")  # noqa: TRY004 - the contract
    return value


def _plain(text: str) -> str:
    """Full-width and other look-alike characters as what they look like, invisible ones left out."""
    same = dict.fromkeys("\u2018\u2019\u02bc", "'") | dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-")
    hidden = dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", None)
    return unicodedata.normalize("NFKC", text).translate(str.maketrans(same | hidden))


def _words(text: str) -> list[str]:
    return _WORD.findall(_plain(text).casefold())


# --- roots

# Words that only look derived: stripping them would give an unrelated word, or spoil their own.
_WHOLE = """
    after ally always anger animal apartment apply assembly badger banner barber batter belly besides better
    binge bitter bother boulder brother buffer bully bumper burger business butcher butt butter candidate
    capable captive career center chapter charter cheer cleaver clever clover comment compartment comply
    constable contest copper corner counter cover crater cunning customer dagger danger department digest dinner
    doctor durable during early earnest either enter equator evening factor family fashion ferment festive fiber
    figment flower folly footer forest foster founder funeral gander garment gender general generous governess
    grateful hammer hamper harness harvest heather herring hinder holly holster honest hundred hunger imply
    inner interest jelly jolly ladder lateral lather latter layer leather ledger lens letter lily liter literal
    literate litter liver lotion lumber lunge manger manner master matter meter mineral miser mission mister
    moderate modest moment moth mother motive motor multiply naked nation native news notion number offer only
    other otter over paper parable passion paste pastor pepper pester pigment pitcher poker ponder portable
    portion poster potion potter powder power probable procession proper protest quarter question quite rally
    ranger rather ration recession rely reply request restore restored river roster rubber rudder rugged sacred
    section sector segment series several shoulder shower shutter silly silver singe sister slander slipper
    solder soldier sometimes species spider station stocking succession suite summer super supper supply
    syllable tally temper tempest tender tiger timber tinge torment tower tractor traitor trigger tuber udder
    ugly upper utter vacation vegetable version wager wander water wedding wicked winter wither witness wonder
"""
# The word, then what is a form of it and not to be found by its ending.
_IRREGULAR = """
    be been being; do does did done doing; go goes went gone going; have has had having; use used using user
    age aged aging; die died dying; lie lied lying; tie tied tying; owe owed owing; see seen; agree agreed
    free freed; man men; woman women; child children; person people; foot feet; tooth teeth; goose geese
    mouse mice; ox oxen; knife knives; wife wives; life lives; live life; wolf wolves; shelf shelves; half halves
    loaf loaves; leaf leaves; thief thieves; scarf scarves; calf calves; bus buses; gas gases; quiz quizzes
    run ran; make made; take took taken; give gave given; come came; eat ate eaten; buy bought; bring brought
    think thought; teach taught; catch caught; sell sold; tell told; say said; pay paid; keep kept; sleep slept
    hold held; lose lost; win won; write wrote written; speak spoke spoken; break broke broken; drive drove driven
    ride rode ridden; grow grew grown; know knew known; fly flies flew flown; throw threw thrown; draw drew drawn
    wear wore worn; swim swam swum; sing sang sung; ring rang rung; drink drank drunk; begin began begun; sit sat
    stand stood; understand understood; build built; send sent; spend spent; bend bent; meet met; lead led
    feed fed; get got gotten; fall fell fallen; choose chose chosen; freeze froze frozen; steal stole stolen
    hide hid hidden; bite bitten; forget forgot forgotten; shake shook shaken; wake woke woken; hear heard
    good goods; full fully; whole wholly; simple simply; gentle gently; subtle subtly; idle idly; day daily
    hill hilly; chill chilly; smell smelly; curl curly; oil oily; wool woolly; rain rainy; sun sunny; cloud cloudy
    wind windy; snow snowy; fog foggy; storm stormy; ice icy; dust dusty; dirt dirty; mud muddy; sand sandy
    rock rocky; salt salty; spice spicy; juice juicy; taste tasty; health healthy; wealth wealthy; luck lucky
    noise noisy; sleep sleepy; thirst thirsty; hair hairy; mess messy; smoke smoky; fun funny; scare scary
    shine shiny; wave wavy; bone bony; stone stony; grease greasy; bump bumpy; ease easy; greed greedy; need needy
    risk risky; sugar sugary; water watery; leaf leafy; grass grassy; hunger hungry; anger angry; rust rusty
"""
_ENDINGS = (
    # ending, what takes its place, and whether a doubled consonant or a lost e comes back
    ("ically", "ic", False),
    ("bly", "ble", False),
    ("ly", "", False),
    ("ness", "", False),
    ("less", "", False),
    ("ful", "", False),
    ("ment", "", False),
    ("ation", "ate", False),
    ("ator", "ate", False),
    ("sion", "s", False),
    ("tion", "t", False),
    ("tive", "t", False),
    ("ssor", "ss", False),
    ("tor", "t", True),
    ("ing", "", True),
    ("ed", "", True),
    ("est", "", True),
    ("er", "", True),
    ("able", "", True),
)


@lru_cache(maxsize=4096)
def _root(word: str) -> str:
    word = _singular(word.removesuffix("'s"))
    while word not in _set(_WHOLE):
        shorter = _without_ending(word)
        if shorter == word:
            return _settled(word)
        word = shorter
    return word


def _singular(word: str) -> str:
    if word in _base_forms():
        return _base_forms()[word]
    if len(word) > 3 and word not in _set(_WHOLE) and re.search("[^sui]s$", word):
        word = word[:-3] + "y" if len(word) > 4 and word.endswith("ies") else word[:-1]
    return _base_forms().get(word, word)


def _without_ending(word: str) -> str:
    for ending, instead, mends in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem == word or len(stem + instead) < 3 or not re.search("[aeiouy]", stem) or word.endswith("eed"):
            continue
        stem += instead
        stem = re.sub("(?<=[^aeiou])i$", "y", _mended(stem) if mends else stem)
        return _base_forms().get(stem, stem)
    # educate, musical, dangerous: only off a stem of two syllables, not off donate, metal and famous
    stem = re.sub("(?:ate|al|ous)$", "", word)
    return stem if _syllables(stem) > 1 else word


def _mended(stem: str) -> str:
    """The stem as it was before -ing or -er: runn is run, mov is move."""
    if len(stem) > 3 and re.search(r"([^aeioulsfz])\1$", stem):
        return stem[:-1]
    return stem + "e" if _ends_short(stem) or (stem.endswith("at") and _syllables(stem) > 1) else stem


def _settled(word: str) -> str:
    """Spellings of one root made equal: study and studi(es), dance and danc(ing), travel and travell(ed)."""
    if len(word) > 3 and word.endswith("ll") and _syllables(word) > 1:
        return word[:-1]
    if len(word) > 4 and word.endswith("ie"):
        return word[:-1]
    if len(word) > 3 and word.endswith("e") and not word.endswith("ee") and not _ends_short(word[:-1]):
        return word[:-1]
    return re.sub("(?<=[^aeiou])y$", "i", word) if len(word) > 3 else word


def _ends_short(stem: str) -> bool:
    """Whether it is one syllable like hop or mov: then its e matters, hope is not hop."""
    return _syllables(stem) == 1 and bool(re.search("(?:^|[^aeiou]|qu)[aeiouy][^aeiouwxy]$", stem))


def _syllables(word: str) -> int:
    return len(re.findall("qu|[aeiouy]+", word))


@lru_cache
def _base_forms() -> dict[str, str]:
    """Every irregular form with its word."""
    rows = [row.split() for row in re.split("[;\n]", _IRREGULAR) if row.strip()]
    return {form: word for word, *forms in rows for form in forms}


@lru_cache
def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# --- numbers

_SMALL = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_UNIT = f"(?:{'|'.join(_SMALL)})"
_TENS = "(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)"
_TEENS = "(?:ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen)"
_BIG = "(?:hundred|thousand|million|billion|trillion|dozen)s?"
_BELOW_100 = rf"(?:{_TENS}(?:[\s-]+{_UNIT})?|{_TEENS}|{_UNIT})"
_SPELLED = re.compile(
    rf"\b(?:(?:{_BELOW_100}[\s-]+)?{_BIG}(?:[\s-]+(?:and[\s-]+)?(?:{_BIG}|{_BELOW_100}))*|{_BELOW_100})\b",
    re.IGNORECASE,
)
_PARTS = "(?:half|halves|(?:third|fourth|fifth|sixth|seventh|eighth|ninth|tenth)s?)"
_NOT_WHOLE = re.compile(
    rf"\b(?:no[\s-]+one|one(?:'s|[\s-]+another)"
    rf"|{_UNIT}(?:[\s-]+{_PARTS}|-quarters?|[\s-]+and[\s-]+a[\s-]+(?:half|third|quarter)))\b",
    re.IGNORECASE,
)
_MEASURE = "(?:[ap]m|[kcm]?m|k?g|mg|lbs?|ft|in|hrs?|h|min|s|mph|kmh|x)"
_DIGIT = re.compile(
    r"(?<!\w)(?<!\d[./:\u2044])(?<!(?<!\w)[.-])"  # not the end of 15, 1.5, 1/2, 3:30, .5 or -5
    rf"([1-5]){_MEASURE}?"
    r"(?!\w|[./:\u2044]\d|,\d{3}(?!\d))",  # nor the beginning of 15, 5th, 1.5, 1/2, 3:30 or 1,000
    re.IGNORECASE,
)


# --- animals

# `_` stands for a space. A plural in -s, -es or -ies is found by itself, another one stands in _PLURALS.
_ANIMALS = """
    animal amphibian arachnid beast bird bug carnivore cattle creature critter crustacean fish fowl herbivore
    insect invertebrate livestock mammal marsupial mollusc mollusk omnivore pet poultry primate reptile rodent
    songbird vermin vertebrate wildlife

    dog doggy doggie hound mutt pooch pup puppy cat feline canine kitten kitty beagle bloodhound bulldog
    chihuahua collie corgi dachshund dalmatian german_shepherd great_dane greyhound husky labrador mastiff
    pit_bull poodle pug retriever rottweiler sheepdog spaniel terrier watchdog tabby tomcat guinea_pig hamster
    gerbil goldfish bunny rabbit hare parakeet canary budgie

    bull calf cow heifer ox steer bullock bronco colt donkey filly foal horse mare mule pony racehorse stallion
    ass boar hog pig piggy piglet sow swine ewe lamb ram sheep billy_goat goat nanny_goat chick chicken cockerel
    hen rooster duck duckling goose gosling gander turkey guinea_fowl alpaca llama camel dromedary water_buffalo

    aardvark anteater antelope ape armadillo baboon badger bat bear beaver bison black_bear bobcat buffalo
    capybara caribou cheetah chimp chimpanzee chinchilla chipmunk cougar coyote cub deer dingo doe dormouse
    echidna elephant elk ermine fawn ferret fox gazelle gibbon giraffe gnu gopher gorilla grizzly grizzly_bear
    groundhog hedgehog hippo hippopotamus hyena hyaena ibex impala jackal jackrabbit jaguar kangaroo koala
    koala_bear lemming lemur leopard lion lioness lynx mammoth marmot marten meerkat mink mole mongoose monkey
    moose mountain_lion mouse muskrat mustang ocelot opossum orangutan otter panda panther polar_bear polecat
    porcupine possum prairie_dog puma raccoon racoon rat red_panda reindeer rhino rhinoceros shrew skunk sloth
    snow_leopard squirrel stag stoat tapir tasmanian_devil tiger tigress vole wallaby warthog weasel wildcat
    wildebeest wolf wolverine wombat woodchuck yak zebra

    blue_whale dolphin dugong killer_whale manatee narwhal orca porpoise sea_cow sea_lion sea_otter seal
    sperm_whale walrus whale

    albatross bald_eagle bird_of_prey blackbird blue_jay bluebird bluejay buzzard cassowary chickadee cockatiel
    cockatoo condor cormorant crane crow cuckoo dove eagle egret emu falcon finch flamingo grouse gull hawk heron
    hornbill hummingbird ibis jay kestrel kingfisher kiwi kookaburra lark loon lovebird macaw magpie mallard
    mockingbird nightingale nuthatch oriole osprey ostrich owl parrot partridge peacock peahen pelican penguin
    pheasant pigeon plover puffin quail raven roadrunner robin sandpiper seagull snipe sparrow starling stork
    swallow swan tern thrush toucan vulture woodpecker wren

    adder alligator anaconda asp boa boa_constrictor bullfrog caiman chameleon cobra crocodile dinosaur frog
    gecko iguana komodo_dragon lizard newt python rattlesnake salamander sea_turtle serpent skink snake
    t_rex tadpole toad tortoise turtle tyrannosaurus velociraptor viper

    anchovy angelfish barracuda bass betta carp catfish clownfish cod eel flounder grouper guppy haddock halibut
    herring jellyfish lamprey mackerel manta_ray marlin minnow piranha pufferfish salmon sardine seahorse
    sea_horse shark great_white_shark snapper starfish stingray sturgeon swordfish tilapia trout tuna walleye
    clam crab crawfish crayfish cuttlefish hermit_crab krill lobster mussel nautilus octopus oyster prawn scallop
    sea_anemone sea_cucumber sea_star sea_urchin shrimp slug snail squid

    ant aphid bedbug bee beetle bumblebee butterfly caterpillar centipede cicada cockroach cricket daddy_longlegs
    dragonfly earthworm earwig firefly flea fly fruit_fly glowworm gnat grasshopper honeybee hornet horsefly
    housefly inchworm katydid ladybird ladybug leech locust louse maggot mantis mayfly midge millipede mite
    mosquito moth praying_mantis roach scarab scorpion silkworm spider stick_insect stink_bug tarantula termite
    tick wasp weevil worm yellowjacket
"""
_PLURALS = {
    "wolf": "wolves", "calf": "calves", "mouse": "mice", "dormouse": "dormice", "goose": "geese", "ox": "oxen",
    "louse": "lice", "octopus": "octopi", "hippopotamus": "hippopotami", "bird of prey": "birds of prey",
}  # fmt: skip
# Also verbs: in the base form after one of _BEFORE_VERB or a plural, in -s after one of _BEFORE_VERB_S.
_VERBS = """
    ape badger bat bear bug carp clam crane crow duck ferret flounder fly fawn hog hound leech quail ram seal slug
    snipe sow steer swallow tick
"""
_BEFORE_VERB = """
    to can cannot could will would shall should may might must not never i you we they who it him them let
    people children men women
"""
_BEFORE_VERB_S = "he she it who time"
_LIKE_A_PLURAL = "as has its was"
# With a capital letter after a word without one they are names of places, people, cars and brands.
_NAMES = """
    beetle bronco buffalo colt cougar finch impala jaguar jay mustang puma python robin turkey viper wren
"""
# The word with a neighbour that gives it another sense; `*` is the word, singular or plural.
_OTHER_SENSES = """
    bass: * guitar, * player, * drum, * line, * clef, double *, electric *, play *, plays *, playing *
    bat: baseball *, cricket *, softball *, wooden *, aluminum *, * and ball, * mitzvah
    bear: teddy *, gummy *, * market, * in mind, * with, * witness, * fruit, * arms, * hug
    bee: spelling *, quilting *, sewing *
    bird: * of paradise
    bug: computer *, software *, stomach *, flu *, * fix, * fixes, * report, * in the code, * in the program
    bull: * market, red *
    bunny: dust *, * slope
    butterfly: * stroke, * kick, * effect
    calf: * muscle, * muscles, * raise, * raises
    canary: * yellow, * islands
    cat: * scan, * burglar
    chick: * flick
    chicken: * pox, * wire, rubber *
    cow: cash *
    crane: construction *, tower *, * operator, * operators, * his neck, * her neck, * your neck, * their necks
    cricket: play *, plays *, played *, playing *, * bat, * ball, * match, * game, * team, * club, * pitch
    crocodile: * tears
    crow: * bar
    cub: * scout, * scouts
    dog: hot *, corn *, chili *, * tag, * tags
    dove: he *, she *, i *, we *, they *, who *, * into, * in, * off, * under, * headfirst
    duck: * tape, rubber *, lame *
    flea: * market, * markets
    fly: on the *, * ball, * balls, * away
    fox: * news
    goose: * bumps
    hen: * party, * night
    horse: rocking *, * around, * power, pommel *, trojan *, clothes *
    jay: * walk, * walking
    kiwi: * fruit, * fruits, * slice, * slices
    lark: on a *
    lion: * share
    loon: * y
    mammoth: * task, * effort, * project
    mole: skin *, facial *, * on his, * on her, * on my, * on your, * on their, * of
    monkey: * wrench, * bars, * business, * around
    mouse: computer *, wireless *, optical *, * pad, * button, * buttons, * click, * clicks, * cursor
    pet: * peeve, * peeves
    pig: * out, * iron
    piggy: * bank, * banks, * back
    python: * code, * script, * scripts, * program, * programming, * developer, * language, written in *
    ram: * into, computer *, of *
    rat: * race, pack *
    robin: * hood, round *
    seal: wax *, official *, presidential *, royal *, airtight *, rubber *, * of approval, * the deal
    slug: * it
    snail: * mail
    stag: * party, * night
    swallow: * hard, * up
    tick: * tock, * mark, * marks, * off, * the box
    turkey: cold *
    turtle: * neck
    wolf: * down
    worm: computer *
"""


def _animal_at(words: list[str], at: int) -> tuple[int, str]:
    """How many words the animal's name that begins here has, and its singular; (1, "") if none does."""
    for size in (3, 2, 1):
        name = _names().get(" ".join(words[at : at + size]), "")
        if name:
            return len(name.split()), name
    return 1, ""


def _means_else(tokens: list[str], words: list[str], at: int, name: str) -> bool:
    after = at + len(name.split())
    return (
        _is_verb(words[at - 1] if at else "", words[at], name)
        or _is_proper(tokens, at, name)
        or any(
            tuple(words[max(at - len(left), 0) : at]) == left and tuple(words[after : after + len(right)]) == right
            for left, right in _other_senses().get(name, ())
        )
    )


def _is_verb(before: str, word: str, name: str) -> bool:
    if name not in _set(_VERBS):
        return False
    if word != name:
        return before in _set(_BEFORE_VERB_S)
    if re.search("[^sui]s$|n't$|'ll$|'d$", before):
        return before not in _set(_LIKE_A_PLURAL)
    return before in _set(_BEFORE_VERB)


def _is_proper(tokens: list[str], at: int, name: str) -> bool:
    if name == "ram" and tokens[at] == "RAM":
        return not all(token.isupper() for token in tokens if token.isalpha())
    # A text all in capitals or in title case says nothing; neither does the first word of a sentence.
    return name in _set(_NAMES) and at > 0 and tokens[at].istitle() and tokens[at - 1][0].islower()


@lru_cache
def _names() -> dict[str, str]:
    """Every name, and its plurals, with its singular."""
    names = [name.replace("_", " ") for name in _ANIMALS.split()]
    plurals = {plural: name for name in names for plural in _plurals(name)}
    return plurals | {name: name for name in names}


def _plurals(name: str) -> list[str]:
    if name in _PLURALS:
        return [_PLURALS[name]]
    if re.search("[^aeiou]y$", name):
        return [name[:-1] + "ies"]
    if name.endswith("o"):
        return [name + "s", name + "es"]
    return [name + ("es" if name.endswith(("s", "x", "z", "ch", "sh")) else "s")]


@lru_cache
def _other_senses() -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    """For each name, the words before and after it that go with another sense."""
    rows = (row.strip().split(": ") for row in _OTHER_SENSES.strip().splitlines())
    return {name: [_around(cue) for cue in cues.split(", ")] for name, cues in rows}


def _around(cue: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    before, _, after = cue.partition("*")
    return tuple(before.split()), tuple(after.split())
