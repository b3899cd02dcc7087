"""Completes a call with what other rules need, so that the whole policy decides it by the rule that it is about.

A case of one rule has only what this rule reads, and the other rules deny it. What they need stands in their own
allowed cases: earlier calls, facts, state and arguments, which are taken over for the same ids and the same time.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from guardagent.batch.cases import judge_case
from guardagent.batch.records import read_case
from guardagent.errors import GuardError
from guardagent.policy.policies import Policies
from guardagent.translation.drafts import RuleDraft
from guardagent.types import rule_of_error

_DATA = ("facts", "context", "state", "principal")
_MOST_RULES = 30  # that are satisfied for one call
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


def completed(
    record: Mapping[str, Any], policies: Policies, rules: Iterable[RuleDraft], about: Collection[str]
) -> dict[str, Any] | None:
    """Returns a case with what other rules need; None if their allowed cases do not say it.

    Args:
        record: a case with a proposed call.
        policies: the whole policy.
        rules: its rules with their cases.
        about: the ids of the rules that the case is about: these may deny it.
    """
    allowed = {rule.id: list(_allowed_cases(rule, record)) for rule in rules}
    result, denying = dict(record), _denying(policies, record, about)
    for _ in range(_MOST_RULES):
        if not denying:
            return result
        candidates = (_joined(result, case) for case in allowed.get(denying[0], ()))
        judged = ((case, _denying(policies, case, about)) for case in candidates)
        result, left = next(((case, left) for case, left in judged if denying[0] not in left), (result, denying))
        if left is denying:
            return None
        denying = left
    return None


def _allowed_cases(rule: RuleDraft, record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields the allowed cases of a rule: those of the same tool, then the facts and calls around those of others."""
    cases = [case for case in rule.cases if case.get("label") == 0 and isinstance(case.get("proposed"), Mapping)]
    same = [case for case in cases if case["proposed"].get("tool") == record["proposed"]["tool"]]
    yield from (*same, *({**case, "proposed": {}} for case in cases if case not in same))


def _denying(policies: Policies, record: Mapping[str, Any], about: Collection[str]) -> list[str]:
    """The rules that deny a case, without some; all of them if it cannot be judged."""
    try:
        line = json.dumps({**record, "id": "a case"}, allow_nan=False)
        verdict = judge_case(policies, read_case(line, "a case", 1, policies.failed_output))
    except (GuardError, TypeError, ValueError):
        return list(policies.ids)
    names = (*verdict.rules, *(rule_of_error(error, policies.ids) for error in verdict.errors))
    return [name for name in dict.fromkeys(names) if name not in about]


def _joined(record: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    """A case with what an allowed case of another rule has, for its own ids and its own time."""
    own, others = record["proposed"].get("args", {}), case["proposed"].get("args", {})
    ids = {
        value: own[name] for name, value in others.items() if isinstance(value, str) and isinstance(own.get(name), str)
    }
    shift = _shift(case.get("now"), record.get("now"))
    change = partial(_changed, lambda text: ids[text] if text in ids else _moved(text, shift))
    joined = {key: _merged(_named(case.get(key), change), record.get(key)) for key in _DATA}
    history = [
        {
            key: part if key == "tool" else _named(part, change) if key == "args" else change(part)
            for key, part in event.items()
        }
        for event in case.get("history", ())
    ]
    messages = [*(_renamed(message, ids) for message in case.get("messages", ())), *record.get("messages", ())]
    return {
        **record,
        **{key: value for key, value in joined.items() if value is not None},
        **{key: case[key] for key in ("now", "user_confirmed") if key in case and key not in record},
        **({"messages": messages} if messages else {}),
        "history": _history(history, record.get("history", ())),
        "proposed": {**record["proposed"], "args": {**_named(others, change), **own}},
    }


def _renamed(message: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """A message with other ids in its words."""
    words = re.compile("|".join(rf"(?<!\w){re.escape(value)}(?!\w)" for value in ids) or r"(?!)")
    content = message.get("content")
    return {
        **message,
        "content": words.sub(lambda match: ids[match[0]], content) if isinstance(content, str) else content,
    }


def _history(more: Iterable[Mapping[str, Any]], own: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Earlier calls before those of a case. Of a call that both have, the outputs are one record."""
    own, before = list(own), []
    for event in more:
        same = [at for at, each in enumerate(own) if _call(each) == _call(event)]
        if isinstance(event.get("output"), Mapping) and same:
            for at in same:
                own[at] = {**own[at], "output": _merged(event["output"], own[at].get("output"))}
        elif event not in own:
            before.append(event)
    return [*before, *own]


def _call(event: Mapping[str, Any]) -> object:
    return event.get("tool"), event.get("args")


def _changed(change: Callable[[str], str], value: Any) -> Any:
    """A value with its strings changed, and the keys of its mappings, which may be ids."""
    if isinstance(value, Mapping):
        return {change(key): _changed(change, part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(change, part) for part in value]
    return change(value) if isinstance(value, str) else value


def _named(value: Any, change: Callable[[Any], Any]) -> Any:
    """A mapping of names, which stay, to changed values."""
    return {key: change(part) for key, part in value.items()} if isinstance(value, Mapping) else change(value)


def _merged(more: Any, own: Any) -> Any:
    if isinstance(more, dict) and isinstance(own, Mapping):
        return {**more, **{key: _merged(more.get(key), value) for key, value in own.items()}}
    return more if own is None else own


def _shift(before: Any, now: Any) -> dt.timedelta:
    """The time from one moment to another; none if they cannot be compared."""
    try:
        return dt.datetime.fromisoformat(now) - dt.datetime.fromisoformat(before)
    except (ValueError, TypeError):  # there is none, or it has another form or no zone
        return dt.timedelta()


def _moved(text: str, shift: dt.timedelta) -> str:
    """A text; a moment is moved."""
    try:
        return (dt.datetime.fromisoformat(text) + shift).isoformat() if shift and _MOMENT.fullmatch(text) else text
    except (ValueError, OverflowError):  # not a day of a calendar
        return text
