"""Functions with the strings that they can return.

Two readers of Python are tested on them: the one of workflows, and `columns_read` of the toolbox.
"""

from __future__ import annotations

import re


def sections(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Returns pieces of code under headings `# name: expected strings`."""
    by_name = {}
    for section in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
        heading, _, code = section.partition("\n")
        name, _, words = heading.partition(":")
        by_name[name] = code, frozenset(words.split())
    return by_name


RETURNS = sections("""
# a text: a
def f(s): return "a"

# one of two: __end__ a
def f(s): return "a" if s else END

# a lambda: a b
f = lambda s: "a" if s else "b"

# the second lambda of a line: b
fs = [lambda s: "a", lambda s: "b"]; f = fs[1]

# branches: __end__ a b
def f(s):
    if s: return "a"
    elif not s: return "b"
    return END

# match: a b
def f(s):
    match s:
        case 1: return "a"
        case _: return "b"

# a variable: a b
def f(s):
    t = "a"
    if s: t = "b"
    return t

# a list: a b
def f(s): return ["a", "b"]

# a list that grows: a b c d
def f(s):
    out = []
    if s: out.append("a")
    out.extend(["b", "c"])
    out += ["d"]
    return out

# a list comprehension: a b
NAMES = ("a", "b")
def f(s): return [n for n in NAMES if s]

# a comprehension over its own name: a
def f(s):
    x = ["a"]
    return [x for x in x]

# a dictionary that grows: a b c d
def f(s):
    t = {}
    t["x"] = "a"
    t.update(y="b", **{"z": "c"})
    t.update({"u": "d"})
    return t[s["k"]]

# a list that is turned round: a b
def f(s):
    out = ["a", "b"]
    out.reverse()
    return out[0]

# a table of the module that grows: a b
T = {"x": "a"}
def f(s):
    T["y"] = "b"
    return T[s["k"]]

# a list that a harmless helper reads: a
def g(xs): return xs[0]
def f(s):
    out = ["a"]
    return g(out)

# an object made on the spot: a b
class C:
    def __init__(self, *to): self.to = to
    def __call__(self, s): return self.to[s["n"]]
def f(s): return C("a", "b")(s)

# a field of a dataclass made on the spot: a
@dataclass
class C:
    x: int
    to: str = "b"
def f(s): return C(1, "a").to

# a remembered function: a
@functools.cache
def g(to): return to
def f(s): return g("a")

# a dictionary's values: a b
def f(s): return {"x": "a", "y": "b"}[s["k"]]

# one key of a dictionary: a
T = {"x": "a", "y": "b"}
def f(s): return T["x"]

# get with a default: a b
T = {"x": "a"}
def f(s): return T.get(s["k"], "b")

# a helper: a b
def g(s): return "a" if s else "b"
def f(s): return g(s)

# a helper with an argument: a b
def g(s, to): return to
def f(s): return g(s, "a") if s else g(s, to="b")

# a default: a
def g(s, to="a"): return to
def f(s): return g(s)

# its own default: a
fs = [lambda s, t=t: t for t in ("a", "b")]
f = fs[0]

# a closure: a
def make(to):
    def g(s): return to
    return g
f = make("a")

# a partial function: a
def g(to, s): return to
f = functools.partial(g, "a")

# a method: a
class C:
    to = "a"
    def go(self, s): return self.to
f = C().go

# an attribute set when made: a
class C:
    def __init__(self, to): self.to = to
    def __call__(self, s): return self.to
f = C("a")

# a property: a
class C:
    @property
    def to(self): return "a"
    def __call__(self, s): return self.to
f = C()

# an async function: a
async def g(s): return "a"
async def f(s): return await g(s)

# a wrapped function: a
def deco(g):
    @functools.wraps(g)
    def inner(*a, **k): return g(*a, **k)
    return inner
@deco
def f(s): return "a"

# an enumeration: a b
class E(str, enum.Enum):
    A = "a"
    B = "b"
def f(s): return E.A if s else E.B.value

# a formatted text: x_node y_node
def f(s): return f"{'x' if s else 'y'}_node"

# a walrus: a b
def f(s): return t if (t := "a") else "b"

# one or the other: a b
def f(s): return ("a" if s else None) or "b"

# the last of an and: a
def f(s): return s and "a"

# a field that is declared: a b
class S(TypedDict):
    to: Literal["a", "b"]
def f(s: S): return s["to"]

# a parameter that is declared: a b
def f(s: Literal["a", "b"]): return s

# a structured answer: __end__ a b
class R(TypedDict):
    to: Literal["a", "b"]
def f(s):
    r = model.with_structured_output(R).invoke(s)
    return END if r["to"] == "b" else r["to"]

# a recursion: a
def f(s, n=3): return f(s, n - 1) if n else "a"

# a walk through a table: a b c
T = {"a": "b", "b": "c"}
def f(s):
    t = "a"
    while s: t = T[t]
    return t

# a loop over pairs: a b c
def f(s):
    for k, t in (("x", "a"), ("y", "b")):
        if s == k: return t
    return "c"

# items of a dictionary: a b
T = {"x": "a", "y": "b"}
def f(s): return [t for k, t in T.items() if s[k]]

# a random choice: a b
def f(s): return random.choice(["a", "b"])

# no text at all:
def f(s): return {"x": s["y"]}

# nothing:
def f(s): pass
""")
