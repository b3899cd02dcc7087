"""The keys of an assembled policy file that do not come from drafts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from guardagent.translation.assembly.policy_lines import PolicyLines
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import DECLARATIONS, Problem


def frame_of(context: TranslationContext, unlisted: str | None, previous: PolicyLines | None) -> dict[str, Any]:
    """Returns the keys: those of the context, and those of the earlier file that a person may have written."""
    keys = dict(context.frame)
    old = {} if previous is None else previous.content
    for key, value in old.items():
        if key == "tools":
            keys[key] = _tools(keys[key], value)
        elif key == "toolbox":
            keys[key] = _with_new_files(value, keys.get(key, []))
        elif key not in (*DECLARATIONS, "policies"):
            keys[key] = value
    return keys if unlisted is None else {**keys, "unlisted": unlisted}


def frame_problems(context: TranslationContext, previous: PolicyLines | None) -> Iterator[Problem]:
    """Yields where the earlier file contradicts the context. The file stands."""
    old = "" if previous is None else previous.content.get("failed_output", "")
    if old and context.failed_output and old != context.failed_output:
        message = f"the policy file has 'failed_output: {old}', and this translation expects {context.failed_output!r}"
        yield Problem("failed_output", f"{message}; the file stands: correct it, or keep the option out")


def _tools(tools: list[str], old: Any) -> Any:
    """The tools of the context; with the arguments that the earlier file declares, and in its order if they agree."""
    if set(old) == set(tools):
        return old
    return {one: old.get(one) for one in tools} if isinstance(old, Mapping) else tools


def _with_new_files(old: Any, new: list[str]) -> Any:
    files = [old] if isinstance(old, str) else old
    more = [one for one in new if one not in files]
    return [*files, *more] if more else old
