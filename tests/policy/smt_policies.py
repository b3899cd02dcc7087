"""Generates random policies in SMT-LIB with every supported operator, and values for their variables."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

ENUMERATION = ("red", "green", "dark blue")
VARIABLES = {
    **dict.fromkeys(("b1", "b2", "b3"), "Bool"),
    **dict.fromkeys(("i1", "i2", "i3"), "Int"),
    **dict.fromkeys(("r1", "r2"), "Real"),
    **dict.fromkeys(("s1", "s2"), "String"),
    **dict.fromkeys(("c1", "c2"), "Colour"),
}
PREDICATES = ("p1", "p2", "p3", "p4")
FORMS = {  # sort -> operators, with the sorts of their operands
    "Bool": """
        not:Bool and:Bool,Bool and:Bool,Bool,Bool or:Bool,Bool or:Bool,Bool,Bool xor:Bool,Bool =>:Bool,Bool
        =>:Bool,Bool,Bool =:Bool,Bool =:Int,Int =:Real,Real =:String,String =:Colour,Colour =:Int,Real =:Int,Int,Int
        distinct:Int,Int,Int distinct:Colour,Colour distinct:String,String distinct:Real,Int ite:Bool,Bool,Bool
        <:Int,Int <=:Int,Int >:Int,Int >=:Int,Int <:Real,Real <=:Int,Real >:Real,Int >=:Real,Real <=:Int,Int,Int
        >:Real,Int,Real is_int:Real str.<:String,String str.<=:String,String str.prefixof:String,String
        str.suffixof:String,String str.contains:String,String str.is_digit:String (_~is~red):Colour is-green:Colour
        twice:Bool,Int implies:Bool,Bool""",
    "Int": """
        +:Int,Int +:Int,Int,Int -:Int,Int -:Int,Int,Int -:Int *:Int,Int div:Int,Int mod:Int,Int rem:Int,Int abs:Int
        to_int:Real ite:Bool,Int,Int str.len:String str.indexof:String,String,Int str.to_int:String str.to_code:String
        half:Int""",
    "Real": """
        +:Real,Int +:Real,Real -:Real,Real -:Real *:Real,Real *:Int,Real /:Real,Real /:Int,Int to_real:Int
        ite:Bool,Real,Real ite:Bool,Int,Real""",
    "String": """
        str.++:String,String str.++:String,String,String str.at:String,Int str.substr:String,Int,Int
        str.replace:String,String,String str.replace_all:String,String,String str.from_int:Int str.from_code:Int
        ite:Bool,String,String""",
    "Colour": "ite:Bool,Colour,Colour turned:Colour",
}
TABLE = {
    sort: [(name.replace("~", " "), takes.split(",")) for name, takes in (part.split(":") for part in forms.split())]
    for sort, forms in FORMS.items()
}
LITERALS = {
    "Bool": ["true", "false"],
    "Int": ["0", "1", "2", "3", "7", "24", "(- 1)", "(- 5)", "9223372036854775808", "65"],
    "Real": ["0.0", "0.5", "1.0", "2.25", "(/ 1 3)", "(- 1.5)", "3.0"],
    "String": ['""', '"a"', '"ab"', '"7"', '"10"', '"a""b"', '"\\u{e9}"', '"\\u0041"', '"é"', '"-7"'],
    "Colour": ["red", "green", "|dark blue|"],
}
VALUES: dict[str, list[Any]] = {
    "Bool": [True, False],
    "Int": [0, 1, 2, 3, 5, 7, 24, 65, -1, -2, -7, 2**63, -(2**70)],
    "Real": [0, 1, 2, -3, Fraction(1, 2), Fraction(9, 4), Fraction(-3, 2), Fraction(1, 3), 2**65],
    "String": ["", "a", "ab", "aab", "7", "007", "10", 'a"b', "é", "A", "b", "\\u{41}", "\U0002ffff", "a\0b", "٣"],
    "Colour": list(ENUMERATION),
}
HEAD = """(set-logic ALL)
(declare-datatypes ((Colour 0)) (((red) (green) (|dark blue|))))
(define-fun twice ((q Bool) (n Int)) Bool (and q (let ((n (+ n n))) (> n 3))))
(define-fun half ((n Int)) Int (div n 2))
(define-fun turned ((c Colour)) Colour (match c ((red green) (green |dark blue|) (other red))))
(define-const limit Int 24)
"""


@dataclass(frozen=True)
class Policy:
    """A policy text and a permit, with the operators in them."""

    text: str
    permit: str
    operators: frozenset[str]


class Maker:
    """Generates terms of a given depth."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.operators: set[str] = set()

    def term(self, sort: str, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.15:
            return self.leaf(sort)
        chance = self.rng.random()
        if chance < 0.06:
            return self.let(sort, depth)
        if chance < 0.1 and sort == "Bool":
            self.operators.add("str.in_re")
            return f"(str.in_re {self.term('String', depth - 1)} {self.regex(2)})"
        name, takes = self.rng.choice(TABLE[sort])
        self.operators.add(name)
        return f"({name} {' '.join(self.term(take, depth - 1) for take in takes)})"

    def leaf(self, sort: str) -> str:
        names = [name for name, variable in VARIABLES.items() if variable == sort]
        return self.rng.choice(names if self.rng.random() < 0.65 else [*LITERALS[sort], *(["limit"] * (sort == "Int"))])

    def let(self, sort: str, depth: int) -> str:
        """Binds a name that may shadow a variable."""
        self.operators.add("let")
        other = self.rng.choice(list(VALUES))
        name = next(name for name, variable in VARIABLES.items() if variable == other)
        return f"(let (({name} {self.term(other, depth - 1)})) {self.term(sort, depth - 1)})"

    def regex(self, depth: int) -> str:
        simple = [f"(str.to_re {self.rng.choice(LITERALS['String'])})", '(re.range "a" "c")', '(re.range "0" "9")']
        if depth <= 0:
            return self.rng.choice([*simple, "re.allchar", "re.all", "re.none", '(re.range "b" "a")'])
        first, second = self.regex(depth - 1), self.regex(depth - 1)
        unary = ["re.*", "re.+", "re.opt", "(_ re.loop 1 3)", "(_ re.^ 2)", "(_ re.loop 3 1)", "re.comp"]
        if self.rng.random() < 0.6:
            return f"({self.rng.choice(unary)} {first})"
        return f"({self.rng.choice(['re.++', 're.union', 're.inter', 're.diff'])} {first} {second})"

    def assertion(self, number: int) -> str:
        predicate = PREDICATES[number % len(PREDICATES)]
        term = self.term("Bool", self.rng.randint(1, 3))
        forms = [f"(= {predicate} {term})", f"(=> {predicate} {term})", f"(= {term} {predicate})", f"(or true {term})"]
        other = self.rng.choice(PREDICATES)
        forms += [f"(= {predicate} (and {other} {term}))", f"(! (or {predicate} {term}) :named n{number})"]
        return self.rng.choice(forms)


def policy(rng: Random) -> Policy:
    maker = Maker(rng)
    declared = "".join(f"(declare-const {name} {sort})\n" for name, sort in VARIABLES.items())
    declared += "".join(f"(declare-fun {name} () Bool)\n" for name in PREDICATES)
    asserted = "".join(f"(assert {maker.assertion(number)})\n" for number in range(rng.randint(1, 5)))
    permit = rng.choice([*PREDICATES[:2], maker.term("Bool", 3), f"(and p1 {maker.term('Bool', 2)})"])
    return Policy(HEAD + declared + asserted, permit, frozenset(maker.operators))


def values(rng: Random) -> dict[str, Any]:
    return {name: rng.choice(VALUES[sort]) for name, sort in VARIABLES.items()}


def literal(value: Any) -> str:
    """Returns a value in SMT-LIB."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "|dark blue|" if value == "dark blue" else value if value in ENUMERATION else quoted(value)
    number = f"{abs(value)}" if isinstance(value, int) else f"(/ {abs(value.numerator)}.0 {value.denominator}.0)"
    return f"(- {number})" if value < 0 else number


def quoted(text: str) -> str:
    return '"' + "".join(f"\\u{{{ord(character):x}}}" for character in text) + '"'


def facts(assignment: dict[str, Any]) -> str:
    """Returns assertions that the variables have these values."""
    return "".join(f"(assert (= {name} {literal(value)}))\n" for name, value in assignment.items())
