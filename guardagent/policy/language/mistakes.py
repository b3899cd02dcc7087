"""Common mistakes in rules that do not parse, and the likely correction.

Each mistake is a regular expression over the line, in which ⟨ marks the place of the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from guardagent.errors import name_hint

FORMS = ("before", "after", "seq", "forall", "exists", "flow")
FUNCTIONS = (
    "output",
    "args",
    "failed",
    "state",
    "fact",
    "known",
    "len",
    "first",
    "last",
    "some",
    "count",
    "sum",
    "all",
    "any",
)

_Hint = str | Callable[[re.Match[str]], str]


def _function(match: re.Match[str]) -> str:
    """Suggests a correction for an unknown name before a parenthesis."""
    name = match[1]
    if name in FORMS + FUNCTIONS:
        return ""
    close = name_hint(name, FORMS + FUNCTIONS)
    near = re.search(r"did you mean '\w+'\?", close)
    ours = f"write a toolbox function as 'state({name}(...))'"
    return f"{near[0]} or {ours}" if near else ours


# For any rule.
_MISTAKES: tuple[tuple[str, _Hint], ...] = (
    (r"\bnot\s+⟨in\b|⟨not\s+in\b", "write '!(x in [...])'"),
    (r"⟨(and|or|not)\b|\b(not)\s+⟨", lambda match: f"did you mean '{(match[1] or match[2]).upper()}'?"),
    (r"(?:^|[\s(!])([gfxohy])\s+⟨", lambda match: f"did you mean '{match[1].upper()}'?"),
    (r"⟨(?:→|⇒|⟶)", "did you mean '->'?"),
    (r"\bmatches\s*⟨[\"']", "write a regular expression between slashes: '/a.*/'"),
    (r"\bin\s*\([^()]*⟨,", "write a list in brackets: '[a, b]'"),
    (r"\b(?:before|after|seq|forall|exists)\(tool:([\w.-]+)⟨", lambda match: f"write a call as '{match[1]}(...)'"),
    (r"\b(first|last)\(\w+⟨[:|]", lambda match: f"to read a call, write 'output({match[1]}(...))'"),
    (r"(?:^|[\s(!])([a-z]+)⟨:", lambda match: f"did you mean '{_prefix(match[1])}:'?"),
    (r"(?:\btool:|G\s*!\s*)[\w.-]+⟨\(", "write a call in a rule over data, such as 'forall(NAME(), false)'"),
    (r"\bseq\((?:[^()]|\([^()]*\))*⟨\)", "seq(...) needs at least two calls"),
    (r"\b(?:forall|after|before)\(.*\)⟨\)", "a condition is missing; write 'true' for no condition"),
    (
        r"\b(?:before|after)\([^()]*\([^()]*\),\s*[\w.-]+⟨\(",
        "a condition is missing between the two calls; write 'true' for no condition",
    ),
    (r"=⟨=|\w⟨==", "did you mean '='?"),
    (r"<⟨>", "did you mean '!='?"),
    (r"⟨=[^=>]", "did you mean '=='?"),
    (r"\bstate\(⟨\)", "name a function of the toolbox, such as 'state(fn(x))'"),
)
# For a rule without a form over data.
_PROPOSITIONAL: tuple[tuple[str, _Hint], ...] = (
    (r"⟨=>|\b(?:implies|then|eventually)\b", "did you mean a rule such as 'tool:A -> F tool:B'?"),
    (r"\b(?:always|globally|never)\b", "did you mean a rule such as 'G !tool:NAME'?"),
    (r"\buntil\b", "did you mean a rule such as 'tool:A U tool:B'?"),
    (r"<=|\bwithin\b", "did you mean a rule such as 'tool:A -> F[<=3] tool:B'?"),
)
_LAST: tuple[tuple[str, _Hint], ...] = ((r"(\w+)\s*⟨\(", _function),)


def _prefix(name: str) -> str:
    close = re.search(r"did you mean '(\w+)'", name_hint(name, ("tool", "action", "decision")))
    return close[1] if close else "tool"


def hint(before: str, rest: str, *, propositional: bool) -> str:
    """A suggestion for a line with a syntax error, or an empty string.

    Args:
        before: the line before the error.
        rest: the line from the error on.
        propositional: whether the rule has no form over data; only then propositional forms are suggested.
    """
    line = f"{before[-200:]}⟨{rest[:200]}"
    for pattern, form in (*_MISTAKES, *(_PROPOSITIONAL if propositional else ()), *_LAST):
        if match := re.search(pattern, line):
            suggestion = form if isinstance(form, str) else form(match)
            return f"; {suggestion}" if suggestion else ""
    return ""
