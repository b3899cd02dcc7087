"""The final answer as a step: rules speak of it as a call of the reserved tool `answer` with the argument `text`.

Only rules that name the tool judge it. Other rules, `unlisted: deny` and rules in natural language do not see it.
"""

from __future__ import annotations

from collections.abc import Mapping

ANSWER = "answer"
ANSWER_TEXT = "text"


def answer_arguments(text: str) -> Mapping[str, str]:
    """Returns the arguments of the step."""
    return {ANSWER_TEXT: text}
