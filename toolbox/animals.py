"""Animals in a text, for rules about what a question mentions."""

from __future__ import annotations

import re
from functools import lru_cache

from ._plain import TOKEN, plain, text_of, word_set


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
    tokens = TOKEN.findall(plain(text_of(text, "the text")))
    lower = [token.casefold().removesuffix("'s") for token in tokens]
    found: dict[str, None] = {}
    at = 0
    while at < len(lower):
        size, name = _animal_at(lower, at)
        if name and not _means_else(tokens, lower, at, name):
            found[name] = None
        at += size
    return list(found)


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
    """(number of words, singular) of the animal's name that begins here; (1, "") without one."""
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
    if name not in word_set(_VERBS):
        return False
    if word != name:
        return before in word_set(_BEFORE_VERB_S)
    if re.search("[^sui]s$|n't$|'ll$|'d$", before):
        return before not in word_set(_LIKE_A_PLURAL)
    return before in word_set(_BEFORE_VERB)


def _is_proper(tokens: list[str], at: int, name: str) -> bool:
    if name == "ram" and tokens[at] == "RAM":
        return not all(token.isupper() for token in tokens if token.isalpha())
    # A text all in capitals or in title case says nothing; neither does the first word of a sentence.
    return name in word_set(_NAMES) and at > 0 and tokens[at].istitle() and tokens[at - 1][0].islower()


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
