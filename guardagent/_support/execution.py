"""Folds Checks into one: the most severe verdict stands, and a check that crashes denies."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from functools import reduce
from types import MappingProxyType
from typing import TypeVar

from guardagent.errors import GuardError, error_text
from guardagent.types import Check, Context, Decision, Event, Verdict, unchecked_verdict

Request = TypeVar("Request")
Response = TypeVar("Response")


def fold(checks: Iterable[Check]) -> Check:
    """Combines checks into one that runs all of them. With no checks it denies, since nothing was checked."""
    all_checks = tuple(checks)

    def folded(event: Event, context: Context) -> Verdict:
        if not all_checks:
            return unchecked_verdict("no rule applies; expected at least one check")
        return reduce(combine, (deny_on_crash(check)(event, context) for check in all_checks))

    return folded


def deny_on_crash(check: Check) -> Check:
    """Turns any failure of a check into a denial with its cause: the outermost layer of every guard.

    The verdict carries the time that the check took.
    """

    def guarded(event: Event, context: Context) -> Verdict:
        return timed_verdict(lambda: check(event, context))

    return guarded


def timed_verdict(judge: Callable[[], object]) -> Verdict:
    """As `verdict_or_denial`, with the time that the call took."""
    started = time.perf_counter()
    verdict = verdict_or_denial(judge)
    return verdict.timed((time.perf_counter() - started) * 1000)


def verdict_or_denial(judge: Callable[[], object]) -> Verdict:
    """Returns the verdict of a call; a denial if it raises or returns anything else."""
    try:
        answer = judge()
    except Exception as error:  # noqa: BLE001 - this is the layer that turns any crash into a denial
        return crash_denial(error)
    return answer if isinstance(answer, Verdict) else _as_verdict(answer)


def deny_on_crash_flow(flow: Generator[Request, Response, object]) -> Generator[Request, Response, Verdict]:
    """Turns any failure of a generator into a denial, like `deny_on_crash`."""
    started = time.perf_counter()
    try:
        verdict = _as_verdict((yield from flow))
    except Exception as error:  # noqa: BLE001 - as above
        verdict = crash_denial(error)
    return verdict.timed((time.perf_counter() - started) * 1000)


def _as_verdict(verdict: object) -> Verdict:
    if isinstance(verdict, Verdict):
        return verdict
    return unchecked_verdict(f"a check returned a {type(verdict).__name__}; expected a Verdict")


def crash_denial(error: BaseException) -> Verdict:
    """Returns the denial for an exception."""
    return unchecked_verdict(str(error) if isinstance(error, GuardError) else error_text(error))


def combine(first: Verdict, second: Verdict) -> Verdict:
    """Returns the more severe of two verdicts, with the reasons, violations, errors and details of both."""
    severe = max(first, second, key=lambda verdict: verdict.decision.severity)
    new = tuple(violation for violation in second.violations if violation not in first.violations)
    repeated = bool(second.violations) and not new  # its reasons are included already
    return severe.changed(
        reasons=first.reasons if repeated else _merge(first.reasons, second.reasons),
        violations=first.violations + new,
        errors=first.errors + tuple(e for e in second.errors if not any(e in error for error in first.errors)),
        details=MappingProxyType({**second.details, **first.details}),
        answer=None if severe.decision > Decision.WARN else first.answer or second.answer,
        risk=first.risk or second.risk,
        usage=first.usage + second.usage,
        elapsed_ms=first.elapsed_ms + second.elapsed_ms,
        calls=first.calls + second.calls,
        story=first.story + second.story,
        denial=severe.denial or first.denial or second.denial,
    )


def _merge(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(first + second))
