"""Finds faulty rules: contradictory, vacuous, redundant and under-constrained ones.

    target       the policy file under check, of which nothing is run; findings, and the decorator of checks
    steps        the order of steps: search in products of automata
    data         data rules, with Z3
    solver       solver rules, with Z3
    checks       the checks, except
    redundant    those for rules that change nothing

Every finding is proved and has an example. Questions that could not be decided are reported separately.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path

from guardagent.policy.language.parser import named_arguments
from guardagent.policy.lint import checks, redundant  # noqa: F401 - they register the checks
from guardagent.policy.lint.data import analysis_of
from guardagent.policy.lint.steps import SearchLimitError
from guardagent.policy.lint.target import CHECKS, LintFinding, LintTarget, rules_of, subject_of
from guardagent.policy.logic.sessions import NOTHING_KNOWN, KnownCalls
from guardagent.policy.policies import Policies

__all__ = ["LintFinding", "LintReport", "lint", "lint_report"]

SECONDS = 15.0
_MOST_NAMED = 10  # tools or rules of undecided questions


@dataclass(frozen=True, slots=True)
class LintReport:
    """The results of all checks on a policy file.

    Attributes:
        findings: the findings, in the order of the rules.
        undecided: questions that could not be decided, in natural language.
        rules: the number of policies.
        notes: what no check can prove, such as names that are spelled almost alike.
    """

    findings: tuple[LintFinding, ...]
    undecided: tuple[str, ...]
    rules: int
    notes: tuple[str, ...] = ()


def lint_report(
    source: Path | str | Policies,
    kinds: Collection[str] | None = None,
    *,
    seconds: float = SECONDS,
    known: KnownCalls = NOTHING_KNOWN,
) -> LintReport:
    """Runs every check on a policy file or on loaded policies, without running a toolbox or programs.

    Args:
        source: the file, or the policies.
        kinds: the kinds of findings that are wanted; without it, all. The name of a shipped check begins with its kind
            if that is one of 'contradictory' and 'vacuous'.
        seconds: the CPU seconds; questions that come later are not decided.
        known: what judged calls have shown of these policies: it needs no proof.

    Raises:
        InputError: the file, or a check of another package, cannot be loaded; or the policies come from no file.
    """
    end = time.thread_time() + seconds
    target = subject_of(source)
    target.end, target.known = end, known
    lint_findings: list[LintFinding] = []
    for name, check in CHECKS.load_all():
        if kinds is not None and name in CHECKS.shipped() and name.partition("_")[0] not in kinds:
            continue
        try:
            lint_findings += check(target)
        except SearchLimitError:
            target.add_undecided(name.replace("_", " "), "the rules have too many states")
    if (analysis := analysis_of(target)) is not None:
        for question, names in analysis.undecided.items():
            target.late.setdefault(question, {}).update(names)
    for question, names in target.late.items():
        more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        about = f" ({', '.join(islice(names, _MOST_NAMED))}{more})" if names else ""
        why = f"{seconds:g} seconds of CPU, or the limits of one question, were not enough"
        target.add_undecided(f"{question}{about}", why)
    order = {name: at for at, name in enumerate(target.ids)}
    lint_findings.sort(key=lambda lint_finding: order.get(lint_finding.policy or "", len(order)))
    findings, undecided = tuple(dict.fromkeys(lint_findings)), tuple(dict.fromkeys(target.undecided))
    zone = filter(None, [target.policies.zone_note])
    return LintReport(findings, undecided, len(target.ids), (*_notes_on_names(target), *zone))


def lint(path: Path | str) -> list[LintFinding]:
    """Returns the findings for a policy file.

    Raises:
        InputError: the file cannot be loaded.
    """
    return list(lint_report(path).findings)


# --- notes on names: in a file without `tools:`, only their spelling shows tools and arguments that do not exist
# A name that is spelled almost like another one can be right, so that these notes are no findings.

_LEAST = 4  # letters of a word, since `get` and `set` are two words

_UNCHECKED = (
    "the file has no 'tools:', so no tool and no argument was checked; list those of the agent, as in "
    "'tools: [refund, get_order]' or 'tools: {refund: [order_id, amount], get_order: [order_id]}'"
)

_Uses = dict[str, list[str]]  # name -> the ids of its rules


def _notes_on_names(target: LintTarget) -> Iterator[str]:
    """Yields names that are spelled almost like another one, and what was not checked; nothing if there is `tools:`."""
    tools: _Uses = {}
    arguments: dict[str, _Uses] = {}
    for rule in target.own if target.file.tools is None else ():
        for tool in sorted(rule.mentioned_tools):
            tools.setdefault(tool, []).append(rule.id)
        for named in (named for read in rule.rules for named in named_arguments(read)):
            for tool in named.tools:
                arguments.setdefault(tool, {}).setdefault(named.name, []).append(rule.id)
    shown = {tool: rules_of(ids) for tool, ids in tools.items()}
    for counter in target.policies.counters if target.file.tools is None else ():
        for tool in sorted(counter.tools):
            shown[tool] = ", ".join([*([shown[tool]] if tool in shown else []), f"counter {counter.name!r}"])
    yield from _near(shown, "tool", "", [*target.tags.values()])
    for tool, uses in arguments.items():
        yield from _near({name: rules_of(ids) for name, ids in uses.items()}, "argument", f" of '{tool}'")
    if tools:
        yield _UNCHECKED


def _near(uses: Mapping[str, str], kind: str, of: str, alternatives: Sequence[Collection[str]] = ()) -> Iterator[str]:
    for first, second in combinations(uses, 2):
        if _is_near(first, second) and not any({first, second} <= {*names} for names in alternatives):
            yield (
                f"the {kind}s '{first}' ({uses[first]}) and '{second}' ({uses[second]}){of} are "
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
