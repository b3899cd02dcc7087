"""The rule language: grammar, parser, syntax tree and values.

The grammar in `language.lark` gives a parse tree; the parser checks all names in it and builds the syntax tree.
Propositional rules become formulas of linear temporal logic over finite traces. Errors show a caret and a likely
correction. Numbers are exact, and strings are never coerced.
"""

from __future__ import annotations

from collections.abc import Mapping

# The final answer is a step: rules speak of it as a call of this reserved tool. Only rules that name the tool judge it.
# Other rules, `unlisted: deny` and rules in natural language do not see it.
ANSWER = "answer"
RENAME_ANSWER = "rename the tool, or give it another name for rules: aliases={'answer': 'send_answer'}"
ANSWER_TEXT = "text"


def answer_arguments(text: str) -> Mapping[str, str]:
    """Returns the arguments of the step of a final answer."""
    return {ANSWER_TEXT: text}
