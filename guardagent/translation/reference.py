"""The language page for a model: the policy file, the language and what decides in doubt, on a few thousand characters.

It is generated from the keys of the file, the functions and examples that the tests run, so it is never out of date.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

from guardagent.policy.file.file_keys import POLICY_FILE
from guardagent.policy.file.policy_keys import Key
from guardagent.policy.functions import RuleFunction, rule_functions
from guardagent.translation.reference_examples import CASES, DATA, FILE, STEPS, ReferenceExample

MOST_CHARACTERS = 8000
MOST_BRIEF_CHARACTERS = 4000

_RULES = """\
A policy file is YAML. A rule judges the next tool call by the conversation so far, or the end of it.
- An `id` is unique. Verdicts and cases name it.
- `on_violation`: `block` (where not written) denies. `escalate` denies until a person approves; use it where the \
document lets somebody decide. `warn` lets it pass, `halt` also ends the conversation.
- Unknown denies. A field, fact or state that is missing or null, and a comparison of different kinds ("3" is no \
number), is unknown, and so is its negation. The call is denied, even with `warn`, and `rules` does not name the rule. \
Only `known(x)` tests it.
- An absent or null argument of the proposed call is unknown: if it may be left out, write `!known(x) || x <= 5`. An \
earlier call without an argument of its pattern does not match.
- A call is successful with `failed: false`, or an output without a match of `failed_output:`. With neither, its \
outcome is unknown and satisfies no `before`, `some`, `seq`, `O`, `F`. What is forbidden, or obliges, counts from the \
start, also if it fails. `count`, `sum`, `first`, `last` see failed calls too: write `!failed(f)`.
- A pattern's `x=v` names the argument, and every later `v` must be equal. Ids are strings and compare exactly: "W1" \
is not "w1" or "#W1".
- Durations: 500ms, 90s, 5m, 24h, 7d, 2w; as numbers they are seconds. Instants: `now`, `time(f)` of an earlier call, \
`time("2026-01-31T12:00:00Z")`. `within 24h` includes exactly 24 hours. A time that is not given is unknown.
"""
_BRIEF_RULES = """\
A policy file is YAML. A rule judges the next tool call by the conversation so far, or the end of it.
- `on_violation`: `block` (default) denies, `escalate` denies until a person approves, `warn` lets it pass, `halt` ends.
- Unknown denies, even with `warn`: what is missing, null or of another kind ("3" is no number). Only `known(x)` \
tests it.
- An absent or null argument is unknown: `!known(x) || x <= 5` if it may be left out.
- An earlier call is successful if `failed: false`, or its output does not match `failed_output:`; else its outcome is \
unknown and satisfies nothing. `count`, `sum`, `first`, `last` see failed calls too: write `!failed(f)`.
- Ids are strings and compare exactly. An `id` of a policy is unique.
- Durations: 90s, 5m, 24h, 7d. Instants: `now`, `time(f)`, `time("2026-01-31T12:00:00Z")`. `within 24h` includes 24h.
"""
_OPERATORS = """\
Steps are `tool:NAME`, `@SET`, `action:NAME`, `decision:NAME` or a bare tag. The rule is about the first step, so \
begin with G. Future: G always, F once, X next, U W R. Past: O once, H always, Y before, S since. Rules over data \
stand at the top or under AND, OR, NOT, ->, never inside of G or F."""


def language_reference(*, brief: bool = False) -> str:
    """The page in Markdown: at most 8,000 characters, the brief form at most 4,000."""
    rules = _BRIEF_RULES if brief else _RULES
    sections = [
        f"# GuardAgent policies\n\n{rules}",
        f"```yaml\n{FILE}```\n\nCases, one per line:\n\n```json\n{CASES[1] if brief else chr(10).join(CASES)}\n```\n",
        "" if brief else f"## Keys\n\n{_keys()}",
        f"## Steps\n\n{_OPERATORS}\n\n{_examples(STEPS, brief=brief)}",
        f"## Calls and their data\n\n{_examples(DATA, brief=brief)}",
        f"## Functions\n\n{_functions(brief=brief)}",
    ]
    return "\n".join(filter(None, sections))


def _examples(examples: Iterable[ReferenceExample], *, brief: bool) -> str:
    chosen = (one for one in examples if one.brief or not brief)
    return "".join(f"- `{one.rule}`{f' {one.meaning}' if one.meaning else ''}\n" for one in chosen)


def _functions(*, brief: bool) -> str:
    """The functions: their calls, and in the long page the beginning of their descriptions."""
    texts = [_function(one, brief=brief) for one in rule_functions().values()]
    return f"{'; '.join(texts)}\n"


def _function(function: RuleFunction, *, brief: bool) -> str:
    """A call of a function from its docstring, and the first clause about it."""
    text = " ".join((inspect.getdoc(function.evaluate) or "").split())
    calls, _, about = text.partition("`: ")
    return f"{calls}`" if brief else f"{calls}` {re.split(r'[.,:] |[.]$', about)[0]}"


def _keys() -> str:
    """The keys of a policy file that the sample does not show, and the names of all keys inside of others."""
    return "".join(f"- {_key(key)}\n" for key in POLICY_FILE.keys.values() if not _is_shown(key)) + _policy_keys()


def _is_shown(key: Key) -> bool:
    """Whether the sample file shows a key, with what is inside of it."""
    return all(re.search(rf"\b{name}:", FILE) for name in (key.name, *_inside(key))) or key.name == "policies"


def _key(key: Key) -> str:
    inside = ", ".join(f"`{name}`" for name in _inside(key))
    about = key.description.partition(". ")[0].removesuffix(".")
    return f"`{key.name}` {about}{f' ({inside})' if inside else ''}"


def _policy_keys() -> str:
    item = POLICY_FILE.keys["policies"].item
    assert item is not None, "it is a list"
    more = [_key(one) for one in item.keys.values() if not _is_shown(one)]
    return f"- In a policy: {'; '.join(more)}\n"


def _inside(key: Key) -> Iterator[str]:
    """The names of the keys inside of a key."""
    found: dict[str, None] = {}
    for one in key.keys.values():
        found |= {one.name: None, **dict.fromkeys(_inside(one))}
    if key.item is not None:
        found |= dict.fromkeys(_inside(key.item))
    yield from found
