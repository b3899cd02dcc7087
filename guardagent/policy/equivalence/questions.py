"""A witness as a question to a person, and the answer as a case that is kept with the policy.

A question is two or three short sentences, generated from names and values. Its answers are the outcomes of the drafts.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from guardagent.policy.equivalence import phrases
from guardagent.policy.equivalence.draft import Different, Outcome, Path, Witness, leaves
from guardagent.policy.equivalence.phrases import ToolDescription, read_tools
from guardagent.policy.equivalence.variations import NOON
from guardagent.types import Event, Verdict, thaw

# --- questions


def question(witness: Witness, tools: Any = (), sentence: str | None = None) -> str:
    """Asks whether the last step of a witness is allowed.

    Args:
        witness: the conversation on which two drafts differ.
        tools: the tools, as for `compare_rules`; their descriptions give better words.
        sentence: the sentence of the document that the drafts translate.

    Raises:
        InputError: a tool is invalid.
    """
    text = " ".join(_WitnessQuestion(witness, read_tools(tools)).sentences())
    return f'"{" ".join(sentence.split())}" {text}' if sentence else text


class _WitnessQuestion:
    def __init__(self, witness: Witness, tools: Mapping[str, ToolDescription]) -> None:
        self._witness, self._tools = witness, tools
        self._seen: dict[str, list[Any]] = {}  # the values of string arguments so far, by argument

    def sentences(self) -> Iterator[str]:
        known = [*self._principal(), *self._known("facts"), *self._known("state"), *self._lacks()]
        if known:
            yield _sentence(phrases.joined(known))
        yield from self._messages()
        yield from self._history()
        yield self._last()

    # --- what is known

    def _principal(self) -> Iterator[str]:
        principal = self._witness.principal
        if principal is None:
            return
        roles = principal.get("roles")
        if roles is not None:
            named = [role for role in roles if role != "another_role"]
            other = "only a role that the rules do not name" if roles else "no role"
            yield f"the user has {'the role ' + phrases.joined(named) if named else other}"
        if principal.get("tenant"):
            yield f"the user belongs to {principal['tenant']}"
        if any(limit.path[-1] == "id" for limit in self._witness.limits) or roles is None:
            yield f"the agent acts for {principal['id']}"

    def _known(self, name: str) -> Iterator[str]:
        for path, value in leaves(thaw(getattr(self._witness, name) or {}), (name,)):
            words = phrases.words_of(" ".join(map(str, path[1:])))
            if isinstance(value, bool):
                yield f'the fact "{words}" is {phrases.value_text(value)}'
            elif words.endswith(" at") and phrases.moment_text(value, self._witness.now, ()):
                yield f"{words.removesuffix(' at')} {self._value(path, value)}"
            else:
                yield f"the {words} is {self._value(path, value)}"

    def _value(self, path: Path, value: Any) -> str:
        if moment := phrases.moment_text(value, self._witness.now, self._witness.windows):
            return moment
        limits = [limit.value for limit in self._witness.limits if limit.path == path]
        near = next((text for limit in limits if (text := phrases.limit_text(value, limit))), "")
        return f"{phrases.value_text(value)}{f' ({near})' if near else ''}"

    def _lacks(self) -> Iterator[str]:
        for tool in self._witness.missing:
            yield phrases.lack_of(tool)
        for tool in self._witness.unknown:
            yield tool

    # --- the calls

    def _messages(self) -> Iterator[str]:
        for message in self._witness.messages:
            yield _sentence(f"the {message['role']} says {json.dumps(message.get('content'), ensure_ascii=False)}")

    def _history(self) -> Iterator[str]:
        calls = [(self._call(("history", at), event), event) for at, event in enumerate(self._witness.history)]
        groups = [(text, list(same)) for text, same in groupby(calls, key=lambda call: call[0])]
        for at, (text, same) in enumerate(groups):
            again = f" {phrases.times(len(same))}" if len(same) > 1 else ""
            yield _sentence(f"{'then ' if at else ''}the agent {text}{again}")

    def _call(self, path: Path, event: Event) -> str:
        arguments = [self._argument((*path, "args", name), name, value) for name, value in thaw(event.args).items()]
        output = _parsed(thaw(event.output)) if event.status != "unknown" else {}
        results = [
            f"{phrases.words_of(' '.join(map(str, leaf_path[3:]))) or 'the answer'} is {self._value(leaf_path, value)}"
            for leaf_path, value in leaves(output, (*path, "output"))
        ]
        action = phrases.action_of(event.tool, self._tools)
        labels = [tag for tag in (event.action, event.decision, *sorted(event.tags)) if tag]
        action += f", marked {phrases.joined(labels)}" if labels else ""
        action += f" with {phrases.joined(arguments)}" if arguments else ""
        action += f"{self._when(event)}{self._outcome(event)}"
        return f"{action}, and learns that {phrases.joined(results)}" if results else action

    def _argument(self, path: Path, name: str, value: Any) -> str:
        words = phrases.words_of(name)
        if not isinstance(value, str) or any(limit.path == path for limit in self._witness.limits):
            return f"{words} {self._value(path, value)}"
        seen = self._seen.setdefault(name, [])
        relation = "" if not seen else "the same " if value in seen else "another "
        seen.append(value)
        return f"{relation}{words} {phrases.value_text(value)}"

    def _when(self, event: Event) -> str:
        now, time = self._witness.now, event.time
        if not isinstance(time, dt.datetime) or now is None:
            return ""
        return f", {phrases.duration_text((now - time).total_seconds(), self._witness.windows)} before now"

    @staticmethod
    def _outcome(event: Event) -> str:
        return {"failed": ", which fails", "unknown": "; it is unknown whether this worked"}.get(event.status or "", "")

    # --- the last step

    def _last(self) -> str:
        proposed = self._witness.proposed
        then = "now " if self._witness.history else ""
        if proposed is None:
            start = "Then the" if self._witness.history else "The"
            return f"{start} conversation ends. Is everything done that has to be done?"
        repeats = bool(self._witness.history) and self._witness.history[-1].tool == proposed.tool
        again = " again" if repeats and not proposed.args else ""
        call = _sentence(f"{then}the agent {self._call(('proposed',), proposed)}{again}")
        now = self._witness.now
        at = f" It is {phrases.clock_text(now)}." if now is not None and self._shows_clock else ""
        return f"{call}{at} Allowed?"

    @property
    def _shows_clock(self) -> bool:
        """Whether the time of day can matter: it is not the plain one, or no other time is there."""
        if self._witness.now != NOON:
            return True
        dated = any(event.time is not None for event in self._witness.history)
        facts = leaves(thaw(self._witness.facts), ())
        return not dated and not any(phrases.moment_text(value, self._witness.now, ()) for _, value in facts)


def _parsed(output: Any) -> Any:
    """The content of an output that is JSON, such as the one of a recorded call."""
    try:
        content = json.loads(output) if isinstance(output, str) else output
    except ValueError:
        return output
    return content if isinstance(content, dict) else output


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


# --- answers

ANSWERS: Mapping[Outcome, str] = {
    "allowed": "allowed",
    "warned": "allowed, with a warning",
    "escalated": "only with the approval of a person",
    "denied": "not allowed",
    "ended": "not allowed, and the conversation ends",
    "unchecked": "not allowed as long as something is unknown",
}
"""The answers to "Allowed?" in natural language, the most lenient first."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer of one draft.

    Attributes:
        answer: in natural language.
        allowed: whether the call may run, or the conversation may end.
        why: the first reason of a denial; empty if there is none.
    """

    answer: str
    allowed: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class ReviewerAnswer:
    """The answer of a person to the question about a witness."""

    witness: Witness
    allowed: bool


def choices(difference: Different) -> tuple[Choice, Choice]:
    """The answers of the first and the second draft."""
    first, second = difference.outcomes
    return _choice(first, difference.first), _choice(second, difference.second)


def _choice(outcome: Outcome, verdict: Verdict) -> Choice:
    return Choice(ANSWERS[outcome], verdict.label == 0, next(iter((*verdict.reasons, *verdict.errors)), ""))


def with_answer(cases: Sequence[Mapping[str, Any]], answer: ReviewerAnswer) -> list[Mapping[str, Any]]:
    """The cases of a policy with an answer added; it replaces an earlier answer to the same question.

    Args:
        cases: the cases, as records. Those whose end is judged are traces.
        answer: the answer.
    """
    record = case_of(answer)
    return [*(case for case in cases if case.get("id") != record["id"]), record]


def case_of(answer: ReviewerAnswer) -> dict[str, Any]:
    """The case of an answer: its id depends on the conversation only."""
    return labelled(answer.witness.record(), allowed=answer.allowed)


def labelled(record: Mapping[str, Any], *, allowed: bool) -> dict[str, Any]:
    """The case of an answer about the record of a witness, whatever the id of that record is."""
    content = json.dumps({**record, "id": ""}, sort_keys=True)
    name = f"answer-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    return {**record, "id": name, "label": 0 if allowed else 1}
