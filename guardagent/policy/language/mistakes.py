"""What an author probably meant: mistakes in rules that do not parse, and the form that was meant.

Each mistake is a regular expression over the line, with the sign ⟨ at the place where it went wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from guardagent.errors import name_hint

FORMS = ("before", "after", "seq", "forall", "exists")
FUNCTIONS = ("output", "args", "failed", "state", "fact", "known", "len", "first", "last", "count", "sum", "all", "any")

_Hint = str | Callable[[re.Match[str]], str]


def _function(match: re.Match[str]) -> str:
    """A name before an opening parenthesis that is no form and no function."""
    name = match[1]
    if name in FORMS + FUNCTIONS:
        return ""
    close = name_hint(name, FORMS + FUNCTIONS)
    near = re.search(r"did you mean '\w+'\?", close)
    ours = f"a toolbox function is asked as state({name}(...))"
    return f"{near[0]} Or, {ours}" if near else ours


# Of any rule.
_MISTAKES: tuple[tuple[str, _Hint], ...] = (
    (r"\bnot\s+⟨in\b|⟨not\s+in\b", "write !(x in [...])"),
    (r"⟨(and|or|not)\b|\b(not)\s+⟨", lambda match: f"did you mean {(match[1] or match[2]).upper()}?"),
    (r"(?:^|[\s(!])([gfxohy])\s+⟨", lambda match: f"did you mean {match[1].upper()}?"),
    (r"⟨(?:→|⇒|⟶)", "did you mean `->`?"),
    (r"\bmatches\s*⟨[\"']", "a regular expression stands between slashes: /a.*/"),
    (r"\bin\s*\([^()]*⟨,", "a list stands in brackets: [a, b]"),
    (r"\b(?:before|after|seq|forall|exists)\(tool:([\w.-]+)⟨", lambda match: f"a call is written `{match[1]}(...)`"),
    (r"(?:^|[\s(!])([a-z]+)⟨:", lambda match: f"did you mean '{_prefix(match[1])}:'?"),
    (r"(?:\btool:|G\s*!\s*)[\w.-]+⟨\(", "a call stands in a rule over data, as in forall(NAME(), false)"),
    (r"\bseq\((?:[^()]|\([^()]*\))*⟨\)", "seq(...) takes at least two calls"),
    (r"\b(?:forall|after|before)\(.*\)⟨\)", "a condition is missing; write `true` where there is none"),
    (r"\b(?:before|after)\([^()]*\([^()]*\),\s*[\w.-]+⟨\(", "a condition stands between the two calls, if only `true`"),
    (r"\b(first|last)⟨\(", lambda match: f"what is known of a call is asked for as output({match[1]}(...))"),
    (r"=⟨=|\w⟨==", "did you mean `=`?"),
    (r"<⟨>", "did you mean `!=`?"),
    (r"⟨=[^=>]", "did you mean `==`?"),
    (r"\bstate\(⟨\)", "a function of the toolbox, as in state(fn(x))"),
)
# Of a rule without any form over data.
_PROPOSITIONAL: tuple[tuple[str, _Hint], ...] = (
    (r"⟨=>|\b(?:implies|then|eventually)\b", "did you mean a rule such as `tool:A -> F tool:B`?"),
    (r"\b(?:always|globally|never)\b", "did you mean a rule such as `G !tool:NAME`?"),
    (r"\buntil\b", "did you mean a rule such as `tool:A U tool:B`?"),
    (r"<=|\bwithin\b", "did you mean a rule such as `tool:A -> F[<=3] tool:B`?"),
)
_LAST: tuple[tuple[str, _Hint], ...] = ((r"(\w+)\s*⟨\(", _function),)


def _prefix(name: str) -> str:
    close = re.search(r"did you mean '(\w+)'", name_hint(name, ("tool", "action", "decision")))
    return close[1] if close else "tool"


def hint(before: str, rest: str, *, propositional: bool) -> str:
    """What was probably meant by a line that went wrong between two texts; empty where nothing is known.

    Args:
        before: the line up to there.
        rest: the line from there on.
        propositional: whether the rule has no parentheses with arguments: only then are the last forms meant.
    """
    line = f"{before[-200:]}⟨{rest[:200]}"
    for pattern, form in (*_MISTAKES, *(_PROPOSITIONAL if propositional else ()), *_LAST):
        if match := re.search(pattern, line):
            suggestion = form if isinstance(form, str) else form(match)
            return f"; {suggestion}" if suggestion else ""
    return ""
