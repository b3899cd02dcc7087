"""Notes on a file without `tools:`: only their spelling shows tools and arguments that do not exist.

A name that is spelled almost like another one can be right, so that these notes are no findings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

from guardagent.policy.language.parser import named_arguments
from guardagent.policy.lint.target import LintTarget, rules_of

_LEAST = 4  # letters of a word, since `get` and `set` are two words

_UNCHECKED = (
    "the file has no 'tools:', so no tool and no argument was checked; list those of the agent, as in "
    "'tools: [refund, get_order]' or 'tools: {refund: [order_id, amount], get_order: [order_id]}'"
)

_Uses = dict[str, list[str]]  # name -> the ids of its rules


def notes_on_names(target: LintTarget) -> Iterator[str]:
    """Yields names that are spelled almost like another one, and what was not checked; nothing if there is `tools:`."""
    tools: _Uses = {}
    arguments: dict[str, _Uses] = {}
    for rule in target.own if target.file.tools is None else ():
        for tool in sorted(rule.mentioned_tools):
            tools.setdefault(tool, []).append(rule.id)
        for named in (named for read in rule.rules for named in named_arguments(read)):
            for tool in named.tools:
                arguments.setdefault(tool, {}).setdefault(named.name, []).append(rule.id)
    yield from _near(tools, "tool", "", [*target.tags.values()])
    for tool, uses in arguments.items():
        yield from _near(uses, "argument", f" of '{tool}'")
    if tools:
        yield _UNCHECKED


def _near(
    uses: Mapping[str, list[str]], kind: str, of: str, alternatives: Sequence[Collection[str]] = ()
) -> Iterator[str]:
    for first, second in combinations(uses, 2):
        if _is_near(first, second) and not any({first, second} <= {*names} for names in alternatives):
            yield (
                f"the {kind}s '{first}' ({rules_of(uses[first])}) and '{second}' ({rules_of(uses[second])}){of} are "
                f"spelled almost alike; if they are the same {kind}, write one name"
            )


def _is_near(first: str, second: str) -> bool:
    """Whether names differ in case and signs only, or in one letter of a word, or by two that changed places."""
    if _plain(first) == _plain(second):
        return True
    pairs = [pair for pair in zip(first.split("_"), second.split("_"), strict=False) if pair[0] != pair[1]]
    return first.count("_") == second.count("_") and len(pairs) == 1 and _is_slip(*sorted(pairs[0], key=len))


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _is_slip(short: str, long: str) -> bool:
    """Whether the longer word is the shorter one after a slip; a plural and another number are no slips."""
    if len(short) < _LEAST or not (short + long).isalpha() or long == f"{short}s":
        return False
    start = next((at for at, pair in enumerate(zip(short, long, strict=False)) if pair[0] != pair[1]), len(short))
    rest, other = short[start:], long[start:]
    swapped = rest[:2] == other[1::-1] and rest[2:] == other[2:]
    return rest == other[1:] or rest[1:] == other[1:] or swapped
