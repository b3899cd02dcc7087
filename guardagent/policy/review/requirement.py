"""Holds a policy to its review: the reasons why a policy is not what people confirmed.

The document of the review is compared with the file as it is now, and each rule with the hash that was confirmed. Two
files in which a rule has the same hash judge every call the same by this rule. A hash covers the rule as written, the
declarations that it can reach by name, directly or through others, and the frame of the file: the declared tools,
`unlisted`, `failed_output`, `dispatch` and the shadow. A new tool can break a sentence that its rules, unchanged, no
longer cover; so a change of the frame changes every hash.

A name counts as reached wherever its words occur in a rule, also in a message: too much is reached rather than too
little.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from guardagent.errors import InputError
from guardagent.policy.documents import MAX_PDF, parse_document
from guardagent.policy.documents.sentences import DocumentComparison, Sentence, compare
from guardagent.policy.documents.text import format_of
from guardagent.policy.file.policy_file import PolicyFile, review_path
from guardagent.policy.file.rule_keys import RuleSource
from guardagent.policy.file.source_tree import SourceText, shortened
from guardagent.policy.policies import Policies
from guardagent.policy.review.record import Confirmation, Review, ReviewedSentence, instant, read_review
from guardagent.programs.lock import toolboxes
from guardagent.programs.program_file import digest_of
from guardagent.sandbox.toolbox import Toolbox

# --- the document

_AGAIN = "run 'guardagent translate' again"


def document_problems(review: Review, folder: Path) -> tuple[str, ...]:
    """Returns the differences of a document from the one that was translated; empty if its bytes are the same.

    Args:
        review: the review.
        folder: the base of the document's path.
    """
    path = folder / review.document
    try:
        data = _bytes(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return (f"the document {str(path)!r} cannot be read: {reason}; expected the one that was translated",)
    if hashlib.sha256(data).hexdigest() == review.document_hash:
        return ()
    try:
        sentences = parse_document(data, str(path), format_of(str(path), data)).sentences
    except InputError:
        return (f"the document {str(path)!r} changed since it was translated; {_AGAIN}",)
    changes = tuple(_changes(compare(review.sentences, sentences)))
    return changes or (f"the document {str(path)!r} changed, but none of its sentences; {_AGAIN}",)


def _bytes(path: Path) -> bytes:
    """The bytes of a regular file: a pipe or a device may never end."""
    if path.exists() and not path.is_file():
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        data = file.read(MAX_PDF + 1)
    if len(data) > MAX_PDF:
        raise ValueError(f"it has more than {MAX_PDF:,} bytes")
    return data


def _changes(document_comparison: DocumentComparison) -> Iterator[str]:
    for change in document_comparison.changed:
        yield f"{sentence_name(change.old)} changed in the document: now {quoted(change.new.text)}"
    for sentence in document_comparison.removed:
        yield f"{sentence_name(sentence)} is no longer in the document"
    for sentence in document_comparison.added:
        yield f"{sentence_name(sentence)} of the document is new"


def sentence_name(sentence: Sentence) -> str:
    """The number, the place and the first words of a sentence."""
    return f"sentence {sentence.number} ({sentence.place}: {quoted(sentence.text)})"


def quoted(text: str) -> str:
    """The first words of a text in quotes, with escapes for characters that do not print."""
    return repr(shortened(text))


# --- hashes of rules

_PLACES = frozenset(["line", "location", "path", "place", "tag"])
# Keys that a rule may lack: without them, it keeps the hash of earlier releases.
_LATER = frozenset(["approval_scope", "cedar", "escalate_to", "halts_tool", "when"])

Key = tuple[str, str]  # the field and the name of a declaration, or the prefix of a toolbox


def rule_hashes(policies: Policies | PolicyFile) -> Mapping[str, str]:
    """Returns the hash of each rule by its id. Comments, layout and the order of rules do not change it.

    Raises:
        InputError: the policies come from no policy file, or a file that they refer to cannot be read.
    """
    file = policies.source if isinstance(policies, Policies) else policies
    if file is None:
        raise InputError("these policies have no source; expected policies that 'load_policies' loaded")
    declarations = _ReachedDeclarations(file)
    reached = {rule.id: declarations.reached(rule) for rule in file.rules}
    used = {key for keys in reached.values() for key in keys}
    frame = _frame(file) | {"others": declarations.meanings(declarations.always - used)}
    return {
        rule.id: _hash([_plain(_normalized(rule)), declarations.meanings(reached[rule.id]), frame])
        for rule in file.rules
    }


@dataclass(frozen=True, slots=True)
class _ReachedDeclaration:
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


class _ReachedDeclarations:
    """The declarations of a policy file.

    Attributes:
        always: those with an effect also if no rule uses them: counters count, the tools of tags are known names, and
            the files of a toolbox run.
    """

    def __init__(self, file: PolicyFile) -> None:
        self._known = dict(_declared(file))
        self._by_word: defaultdict[str, set[Key]] = defaultdict(set)  # the last word of a name: no scope is so long
        for key, declaration in self._known.items():
            for name in declaration.names:
                self._by_word[re.findall(r"\w+", name)[-1]].add(key)
        self.always = {key for key in self._known if key[0] in ("tags", "counters", "toolboxes")}

    def meanings(self, keys: set[Key]) -> list[Any]:
        return [[*key, self._known[key].meaning] for key in sorted(keys)]

    def reached(self, rule: RuleSource) -> set[Key]:
        """The declarations that a rule can reach."""
        keys = {("toolboxes", rule.scopes[0])} & self._known.keys() if rule.kind == "request" else set()
        waiting = [_ReachedDeclaration((), None, _words(_plain(_normalized(rule))), rule.scopes)]
        while waiting:
            at = waiting.pop()
            candidates = {key for word in at.words & self._by_word.keys() for key in self._by_word[word]}
            new = {key for key in candidates - keys if self._is_named(self._known[key], at)}
            keys |= new
            waiting += [self._known[key] for key in new]
        return keys

    def _is_named(self, declaration: _ReachedDeclaration, at: _ReachedDeclaration) -> bool:
        scopes = ("", *at.scopes)
        return any(_words_of(name.removeprefix(scope)) <= at.words for name in declaration.names for scope in scopes)


def _declared(file: PolicyFile) -> Iterator[tuple[Key, _ReachedDeclaration]]:
    for field in ("tags", "constants"):
        for name, value in getattr(file, field).items():
            yield (field, name), _ReachedDeclaration((name,), _plain(getattr(value, "meaning", value)))
    for name, definition in file.definitions.items():
        meaning = _plain(replace(definition, body=_laid_out(definition.body)))
        yield ("definitions", name), _ReachedDeclaration((name,), meaning, _words(meaning), definition.scopes)
    for name, counter in file.counters.items():
        meaning = _plain(counter)
        yield ("counters", name), _ReachedDeclaration((name,), meaning, _words(meaning), counter.scopes)
    for prefix, paths in file.toolboxes.items():
        toolbox = Toolbox(list(paths))
        sources = sorted([toolbox.name, toolbox.digest] for toolbox in toolboxes(toolbox))
        yield ("toolboxes", prefix), _ReachedDeclaration(tuple(prefix + name for name in toolbox), sources)
    # All labels together: a value that has one may lack another, and an id may be found in any.
    yield ("labels", ""), _ReachedDeclaration(("sources", "seen", "flow"), _plain(file.labels))


def _frame(file: PolicyFile) -> dict[str, Any]:
    """The keys of a file that concern every rule."""
    return {
        "tools": _plain(file.tools),
        "unlisted": file.unlisted or "allow",
        "failed_output": file.failed_output,
        "shadow": None if file.shadow is None else dict(rule_hashes(file.shadow)),
        **({"dispatch": _plain(file.dispatch)} if file.dispatch else {}),
    }


def _normalized(rule: RuleSource) -> RuleSource:
    """A rule with formulas on one line, and the text of its SMT-LIB file."""
    if rule.solver is not None:
        from guardagent.policy.solver.monitor import smt_text

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
            return {key: _plain(part) for key, part in value.items()}
        case set() | frozenset():
            return sorted(value)
        case tuple() | list():
            return [_plain(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.name not in _PLACES and not field.name.startswith("_")]
        return {name: _plain(part) for name in names if (part := getattr(value, name)) or name not in _LATER}
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


# --- the requirement

SHOWN = 10  # problems in a message
_UNKNOWN = dt.datetime.min.replace(tzinfo=dt.UTC)

SentenceStatus = Literal["confirmed", "changed", "unconfirmed"]
"""Confirmed as it stands, or a heading that needs no confirmation; confirmed with another fate or other rules; never
confirmed, or nothing to confirm yet."""


def require_review(policies: Policies | PolicyFile, path: Path | str) -> None:
    """Requires that people confirmed every sentence and rule of a policy as they stand.

    Args:
        policies: the policy.
        path: its review file.

    Raises:
        InputError: the review file is missing, invalid, or does not confirm everything; the message lists the problems.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file; expected the review of the policy, beside it: 'guardagent translate'")
    if problems := review_problems(policies, read_review(path), path.parent):
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        shown = "".join(f"\n- {problem}" for problem in [*problems[:SHOWN], *more])
        raise InputError(
            f"{path}: the review does not hold; expected every sentence and rule confirmed as it stands:{shown}"
        )


def required_review(policies: object, review: object) -> Path:
    """Returns the review file that an option means: True for the one beside the policy file, or a path.

    Raises:
        InputError: there are several policy files, or the option is something else.
    """
    paths = [policies] if isinstance(policies, str | Path) else list(policies) if isinstance(policies, Sequence) else []
    if len(paths) != 1:
        raise InputError(f"{len(paths)} policy files have no common review; expected one that includes the others")
    if review is True:
        return review_path(paths[0])
    if isinstance(review, str | Path) and str(review):
        return Path(review)
    raise InputError(f"'require_review=' is {review!r}; expected True, False or the path of a review file")


def review_problems(policies: Policies | PolicyFile, review: Review, folder: Path | str) -> tuple[str, ...]:
    """Returns the reasons why a policy is not what people confirmed; empty if it is.

    Args:
        policies: the policy.
        review: its review.
        folder: the base of the path of the document.

    Raises:
        InputError: a file that the policy refers to cannot be read.
    """
    confirmed = _Confirmed(review, rule_hashes(policies))
    return (
        *document_problems(review, Path(folder)),
        *_open_problems(review),
        *confirmed.frame_problems(),
        *confirmed.sentence_problems(),
        *confirmed.rule_problems(),
    )


def sentence_status(policies: Policies | PolicyFile, review: Review) -> tuple[SentenceStatus, ...]:
    """Returns the status of each sentence of a review, in its order.

    Raises:
        InputError: a file that the policy refers to cannot be read.
    """
    confirmed = _Confirmed(review, rule_hashes(policies))
    return tuple(map(confirmed.status, review.sentences))


def rule_problems(policies: Policies | PolicyFile, review: Review) -> tuple[str, ...]:
    """Returns the problems of the rules that rest on no sentence: not confirmed, changed or removed since.

    Raises:
        InputError: a file that the policy refers to cannot be read.
    """
    return tuple(_Confirmed(review, rule_hashes(policies)).rule_problems())


def _open_problems(review: Review) -> Iterator[str]:
    """Questions without an applied answer, and findings that no confirmation can cover."""
    for question in review.open_questions:
        yield f"question {question.id!r} is open: {quoted(question.text)}"
    for answer in review.answers:
        if not answer.applied:
            yield f"the answer to question {answer.question!r} is not applied; run 'guardagent translate' again"
    for finding in review.findings:
        if finding.blocking and not finding.sentences and not finding.rules:
            yield f"finding {finding.kind!r} concerns the whole document: {quoted(finding.message)}"


class _Confirmed:
    """The last confirmations, compared with the rules now: an earlier one that matches again overrides no later one.

    Args:
        review: the review.
        hashes: the hashes of the rules now.
    """

    def __init__(self, review: Review, hashes: Mapping[str, str]) -> None:
        in_time = sorted(review.confirmations, key=lambda confirmation: instant(confirmation.at) or _UNKNOWN)
        self._sentences, self._hashes, self._settled = review.sentences, hashes, review.settled_headings
        self._of_sentences = {confirmation.sentence: confirmation for confirmation in in_time if confirmation.sentence}
        self._of_rules = {
            rule: then
            for confirmation in in_time
            if not confirmation.sentence
            for rule, then in confirmation.rules.items()
        }
        self._resting = {rule for sentence in review.sentences for rule in sentence.rules}

    def status(self, sentence: ReviewedSentence) -> SentenceStatus:
        if sentence.hash in self._settled:
            return "confirmed"
        status = self._of_sentences.get(sentence.hash)
        if status is None or not _is_decided(sentence):
            return "unconfirmed"
        present = {rule: self._hashes.get(rule) for rule in sentence.rules}
        return "confirmed" if (status.fate, dict(status.rules)) == (sentence.fate, present) else "changed"

    def sentence_problems(self) -> Iterator[str]:
        for sentence in self._sentences:
            match self.status(sentence):
                case "changed":
                    differences = "; ".join(self._differences(sentence, self._of_sentences[sentence.hash]))
                    yield f"{sentence_name(sentence)} changed since it was confirmed: {differences}"
                case "unconfirmed":
                    undecided = "not confirmed" if _is_decided(sentence) else "not decided"
                    yield f"{sentence_name(sentence)} is {undecided}{self._missing(sentence)}"

    def rule_problems(self) -> Iterator[str]:
        for rule in dict.fromkeys((*self._hashes, *self._of_rules)):
            now, then = self._hashes.get(rule), self._of_rules.get(rule)
            if rule in self._resting or now == then:
                continue
            if then is None:
                yield f"rule {rule!r} rests on no sentence and is not confirmed"
            elif now is None:
                yield f"rule {rule!r} was confirmed and is no longer in the policy"
            else:
                yield f"rule {rule!r} changed since it was confirmed"

    def frame_problems(self) -> Iterator[str]:
        """Explains a change of all rules at once."""
        of_sentences = [rule for confirmation in self._of_sentences.values() for rule in confirmation.rules.items()]
        both = [rule for rule in (*of_sentences, *self._of_rules.items()) if rule[0] in self._hashes]
        if len(both) > 1 and not any(self._hashes[rule] == then for rule, then in both):
            yield (
                "every confirmed rule changed, perhaps with a key that concerns all of them: 'tools', 'unlisted', "
                "'failed_output', 'dispatch', 'shadow', or a tag, counter or toolbox that no rule uses"
            )

    def _differences(self, sentence: ReviewedSentence, then: Confirmation) -> Iterator[str]:
        if then.fate != sentence.fate:
            yield f"it was confirmed as {then.fate!r} and is now {sentence.fate!r}"
        for rule in dict.fromkeys((*sentence.rules, *then.rules)):
            if rule not in self._hashes:
                yield f"rule {rule!r} is no longer in the policy"
            elif rule not in then.rules:
                yield f"rule {rule!r} was not confirmed with it"
            elif rule not in sentence.rules:
                yield f"rule {rule!r} does not rest on it any more"
            elif self._hashes[rule] != then.rules[rule]:
                yield f"rule {rule!r} changed"

    def _missing(self, sentence: ReviewedSentence) -> str:
        missing = [repr(rule) for rule in sentence.rules if rule not in self._hashes]
        return f", and the policy has no rule {', '.join(missing)}" if missing else ""


def _is_decided(sentence: ReviewedSentence) -> bool:
    return sentence.fate != "open" and not (sentence.fate == "rule" and not sentence.rules)
