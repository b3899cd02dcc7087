"""Hashes of rules: two files in which a rule has the same hash judge every call alike by this rule.

A hash covers the rule as written, the declarations that it can reach by name, directly or through others, and the frame
of the file: the declared tools, `unlisted`, `failed_output` and the shadow. A new tool can break a sentence that its
rules, unchanged, no longer cover; so a change of the frame changes every hash.

A name counts as reached wherever its words occur in a rule, also in a message: too much is reached rather than too
little.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.file.policy_file import PolicyFile
from guardagent.policy.file.rule_keys import RuleSource
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.policies import Policies
from guardagent.programs.lock import toolboxes
from guardagent.programs.program_file import digest_of
from guardagent.sandbox.toolbox import Toolbox

_PLACES = frozenset(["line", "location", "path", "place"])

Key = tuple[str, str]  # the field and the name of a declaration, or the prefix of a toolbox


def rule_hashes(policies: Policies | PolicyFile) -> Mapping[str, str]:
    """Returns the hash of each rule by its id. Comments, layout and the order of rules do not change it.

    Raises:
        InputError: the policies come from no policy file, or a file that they refer to cannot be read.
    """
    file = policies.source if isinstance(policies, Policies) else policies
    if file is None:
        raise InputError("these policies have no source; expected policies that 'load_policies' loaded")
    declarations = _Declarations(file)
    reached = {rule.id: declarations.reached(rule) for rule in file.rules}
    used = {key for keys in reached.values() for key in keys}
    frame = _frame(file) | {"others": declarations.meanings(declarations.always - used)}
    return {
        rule.id: _hash([_plain(_normalized(rule)), declarations.meanings(reached[rule.id]), frame])
        for rule in file.rules
    }


@dataclass(frozen=True, slots=True)
class _Declaration:
    """A declaration.

    Attributes:
        names: the names by which it is reached.
        meaning: its content as JSON.
        words: the words by which it reaches others.
        scopes: the prefixes of the names that it can use without a prefix.
    """

    names: tuple[str, ...]
    meaning: Any
    words: frozenset[str] = frozenset()
    scopes: tuple[str, ...] = ()


class _Declarations:
    """The declarations of a policy file.

    Attributes:
        always: those with an effect also if no rule uses them: counters count, the tools of tags are known names, and
            the files of a toolbox run.
    """

    def __init__(self, file: PolicyFile) -> None:
        self._known = dict(_declared(file))
        self._by_word: defaultdict[str, set[Key]] = defaultdict(set)  # the last word of a name: no scope is so long
        for key, one in self._known.items():
            for name in one.names:
                self._by_word[re.findall(r"\w+", name)[-1]].add(key)
        self.always = {key for key in self._known if key[0] in ("tags", "counters", "toolboxes")}

    def meanings(self, keys: set[Key]) -> list[Any]:
        return [[*key, self._known[key].meaning] for key in sorted(keys)]

    def reached(self, rule: RuleSource) -> set[Key]:
        """The declarations that a rule can reach."""
        found = {("toolboxes", rule.scopes[0])} & self._known.keys() if rule.kind == "request" else set()
        waiting = [_Declaration((), None, _words(_plain(_normalized(rule))), rule.scopes)]
        while waiting:
            at = waiting.pop()
            candidates = {key for word in at.words & self._by_word.keys() for key in self._by_word[word]}
            new = {key for key in candidates - found if self._is_named(self._known[key], at)}
            found |= new
            waiting += [self._known[key] for key in new]
        return found

    def _is_named(self, one: _Declaration, at: _Declaration) -> bool:
        scopes = ("", *at.scopes)
        return any(_words_of(name.removeprefix(scope)) <= at.words for name in one.names for scope in scopes)


def _declared(file: PolicyFile) -> Iterator[tuple[Key, _Declaration]]:
    for field in ("tags", "constants"):
        for name, value in getattr(file, field).items():
            yield (field, name), _Declaration((name,), _plain(getattr(value, "meaning", value)))
    for name, definition in file.definitions.items():
        meaning = _plain(replace(definition, body=_laid_out(definition.body)))
        yield ("definitions", name), _Declaration((name,), meaning, _words(meaning), definition.scopes)
    for name, counter in file.counters.items():
        meaning = _plain(counter)
        yield ("counters", name), _Declaration((name,), meaning, _words(meaning), counter.scopes)
    for prefix, paths in file.toolboxes.items():
        toolbox = Toolbox(list(paths))
        sources = sorted([one.name, one.digest] for one in toolboxes(toolbox))
        yield ("toolboxes", prefix), _Declaration(tuple(prefix + name for name in toolbox), sources)
    # All labels together: a value that has one may lack another, and an id may be found in any.
    yield ("labels", ""), _Declaration(("sources", "seen", "flow"), _plain(file.labels))


def _frame(file: PolicyFile) -> dict[str, Any]:
    """The keys of a file that concern every rule."""
    return {
        "tools": _plain(file.tools),
        "unlisted": file.unlisted or "allow",
        "failed_output": file.failed_output,
        "shadow": None if file.shadow is None else dict(rule_hashes(file.shadow)),
    }


def _normalized(rule: RuleSource) -> RuleSource:
    """A rule with formulas on one line, and the text of its SMT-LIB file."""
    if rule.solver is not None:
        from guardagent.policy.solver.compilation import smt_text

        return replace(rule, solver=replace(rule.solver, smt=smt_text(rule.solver), smt_file=None))
    return replace(rule, statements=tuple(map(_laid_out, rule.statements))) if rule.kind == "temporal" else rule


def _laid_out(text: SourceText) -> SourceText:
    """A formula on one line. No string or pattern in it spans lines; a comment, after `#`, ends with its line."""
    lines = re.sub(r"\s*\n\s*", "\n", text.text.strip())
    return replace(text, text=lines if "#" in lines else lines.replace("\n", " "))


def _plain(value: Any) -> Any:
    """A value as JSON, without the places of its parts; the content of files in place of their paths."""
    match value:
        case SourceText():
            return value.text
        case Path():
            return _digest(value)
        case Fraction():
            return ["number", str(value)]
        case Mapping():
            return {key: _plain(one) for key, one in value.items()}
        case set() | frozenset():
            return sorted(value)
        case tuple() | list():
            return [_plain(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in fields(value) if one.name not in _PLACES and not one.name.startswith("_")]
        return {name: _plain(getattr(value, name)) for name in names}
    return value


def _words(value: Any) -> frozenset[str]:
    """All words in the strings of a JSON value."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return frozenset().union(*map(_words, value))
    return _words_of(value) if isinstance(value, str) else frozenset()


@lru_cache(maxsize=4096)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


def _digest(path: Path) -> str:
    try:
        return digest_of(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; expected a readable file") from None


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
