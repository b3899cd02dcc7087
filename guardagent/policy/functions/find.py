"""`find(text, /regex/)`: the matches of a regular expression, in order: the first group of each, where there is one.

Empty matches do not count. A match in which the group takes no part is null.
"""

from __future__ import annotations

from typing import Any

from guardagent.policy.functions import REGEX, RuleFunction
from guardagent.policy.functions._search import matches_in
from guardagent.policy.language.values import Unknown


def _find(text: str, regex: str) -> Any:
    found = matches_in(text, regex)
    return found if isinstance(found, Unknown) else [groups[min(1, len(groups) - 1)] for groups in found]


FUNCTION = RuleFunction(_find, (("text",), (REGEX,)), result="list")
