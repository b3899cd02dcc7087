"""Completes a call with what other rules need, so that the whole policy decides it by the rule that it is about.

A case of one rule has only what this rule reads, and the other rules deny it. What they need stands in their own
allowed cases: earlier calls, facts, state and arguments, which are taken over for the same ids and the same time.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from guardagent.batch.cases import judge_case
from guardagent.batch.records import read_case
from guardagent.errors import GuardError
from guardagent.policy.policies import Policies
from guardagent.translation.drafts import RuleDraft

_MOST_RULES = 8  # that are satisfied for one call
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
    for case in rule.cases:
        proposed = case.get("proposed")
        if (
            case.get("label") == 0
            and isinstance(proposed, Mapping)
            and proposed.get("tool") == record["proposed"]["tool"]
        ):
            yield case


def _denying(policies: Policies, record: Mapping[str, Any], about: Collection[str]) -> list[str]:
    """The rules that deny a case, without some; all of them if it cannot be judged."""
    try:
        line = json.dumps({**record, "id": "a case"}, allow_nan=False)
        verdict = judge_case(policies, read_case(line, "a case", 1, policies.failed_output))
    except (GuardError, TypeError, ValueError):
        return list(policies.ids)
    names = (*verdict.rules, *(error.partition(": ")[0] for error in verdict.errors))
    return [name for name in dict.fromkeys(names) if name not in about]


def _joined(record: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    """A case with what an allowed case of another rule has, for its own ids and its own time."""
    own = record["proposed"].get("args", {})
    more = json.loads(_at_time(json.dumps(case), case.get("now"), record.get("now")))
    for name, value in more["proposed"].get("args", {}).items():
        if isinstance(value, str) and isinstance(own.get(name), str):
            more = json.loads(json.dumps(more).replace(json.dumps(value), json.dumps(own[name])))
    joined = {key: _merged(more.get(key), record.get(key)) for key in ("facts", "context", "state", "principal")}
    known = {json.dumps(event, sort_keys=True) for event in record.get("history", ())}
    events = [event for event in more.get("history", ()) if json.dumps(event, sort_keys=True) not in known]
    return {
        **record,
        **{key: value for key, value in joined.items() if value is not None},
        **{key: more[key] for key in ("now", "user_confirmed") if key in more and key not in record},
        "history": [*events, *record.get("history", ())],
        "proposed": {**record["proposed"], "args": {**more["proposed"].get("args", {}), **own}},
    }


def _merged(more: Any, own: Any) -> Any:
    if isinstance(more, dict) and isinstance(own, Mapping):
        return {**more, **{key: _merged(more.get(key), value) for key, value in own.items()}}
    return more if own is None else own


def _at_time(text: str, before: Any, now: Any) -> str:
    """A text with its moments moved from one time to another one."""
    if not (isinstance(before, str) and isinstance(now, str)) or before == now:
        return text
    try:
        shift = dt.datetime.fromisoformat(now) - dt.datetime.fromisoformat(before)
        return _MOMENT.sub(lambda match: (dt.datetime.fromisoformat(match[0]) + shift).isoformat(), text)
    except (ValueError, TypeError, OverflowError):  # another form, or no zone
        return text
