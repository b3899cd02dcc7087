"""Runs every check on a draft."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from guardagent.errors import error_text
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafting.draft import Draft, Problem
from guardagent.translation.examination.draft_checks import CHECKS
from guardagent.translation.examination.examined import ExaminedDraft


def examine(draft: Draft, context: TranslationContext, *, only_fatal: bool = False) -> tuple[Problem, ...]:
    """Runs every check on a draft.

    Args:
        draft: the draft.
        context: the inputs of the translation.
        only_fatal: whether only fatal problems are wanted. Checks of others are left out.

    Returns:
        The problems: the fatal ones first, then in the order of the rules. A check that fails is a fatal problem.

    Raises:
        InputError: a check of another package cannot be loaded.
    """
    try:
        key = "problems", repr(draft), id(context), only_fatal
    except (ValueError, RecursionError):  # a value that cannot be written, which the checks report
        return _problems(draft, context, only_fatal=only_fatal)
    _, found = context.memory.once(key, lambda: (context, _problems(draft, context, only_fatal=only_fatal)))
    return found


def _problems(draft: Draft, context: TranslationContext, *, only_fatal: bool) -> tuple[Problem, ...]:
    examined = ExaminedDraft(draft, context, only_fatal=only_fatal)
    of_drafts = [pair for pair in CHECKS.load_all() if not getattr(pair[1], "WHOLE_POLICY", False)]
    checks = [pair for pair in of_drafts if not (only_fatal and getattr(pair[1], "NEVER_FATAL", False))]
    found = dict.fromkeys(one for name, module in checks for one in _results(name, module, examined))
    order = {one.id: at for at, one in enumerate(draft.rules)}
    wanted = [one for one in found if one.fatal or not only_fatal]
    return tuple(sorted(wanted, key=lambda one: (not one.fatal, order.get(one.rule, len(order)))))


def _results(name: str, module: Any, examined: ExaminedDraft) -> Iterator[Problem]:
    try:
        yield from module.check(examined)
    except Exception as error:  # noqa: BLE001 - a draft can hold anything; a check without a result is no pass
        problem = f"the check {name!r} did not end: {error_text(error):.300}; simplify the rules"
        yield Problem("unexamined", problem, sentences=tuple(examined.draft.sentences), fatal=True)
