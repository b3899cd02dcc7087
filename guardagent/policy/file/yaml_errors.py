"""What the errors of the YAML parser mean for people who write rules: mostly that a text needs quotes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from guardagent.errors import ContentError

if TYPE_CHECKING:
    from yaml import MarkedYAMLError

QUOTE = "quote the whole text, or write it on the lines under a `|`"

# (what PyYAML says: context, problem; what was probably meant). FOUND is the sign at the place.
_EXPLANATIONS = (
    (r"character '\\t'", "a tab at the beginning of a line or of a value; expected spaces"),
    (r"character .* cannot start|node content", "an unquoted text cannot begin with FOUND; QUOTE"),
    (r"entries are not|keys are not", "an unquoted text cannot begin with `- ` or `? `; QUOTE"),
    (r"an? (anchor|alias|tag)|undefined tag", "an unquoted text cannot begin with &, * or !; QUOTE"),
    (
        r"values are not",
        "`: ` makes a key of what is before it, and none can be here; expected other indentation, or QUOTE",
    ),
    (r"quoted scalar.*(end of stream|document sep)", "the quote that opens here is not closed; expected its end"),
    (r"unknown escape", r"`\FOUND` means nothing in double quotes; expected two backslashes, single quotes, or a `|`"),
    (r"hexadecimal", r"`\x`, `\u` and `\U` in double quotes need 2, 4 and 8 digits; expected these, or single quotes"),
    (r"a flow", "an unquoted text that begins with [ or { is a list or a mapping; expected its end, or QUOTE"),
    (r"a block scalar", "something follows `|` or `>`; expected the text on the next lines, or QUOTE"),
    (r"a single document", "a second document begins here; expected one, without `---` between its parts"),
    (r"a directive|YAML document", "a line that begins with % is a directive; expected none"),
    (r"<document start>", "something follows the end of the value; expected nothing, or QUOTE"),
    (
        r"'<scalar>'",
        "text after a quote or comment, or with too few spaces before it; expected more, or QUOTE",
    ),
    (r"a simple key", "a line that is no `key: value`; expected one, or, for a longer text, more spaces before it"),
    (r"a block (mapping|collection)", "a line that is not aligned with those above; expected the same indentation"),
)
# What is found missing at the end, or in the next line, is to be mended where it begins.
_AT_ITS_BEGINNING = ("end of stream", "stream end", "could not find expected")


def explain_error(error: MarkedYAMLError, text: str, path: Path) -> ContentError:
    """The error with its line, what is wrong there, and how to mend it."""
    problem = ", ".join(filter(None, (error.context, error.problem)))
    begins = any(words in problem for words in _AT_ITS_BEGINNING)
    mark = (error.context_mark if begins else None) or error.problem_mark
    found = text[mark.index : mark.index + 1] if mark else ""
    explanation = next(
        (meaning for pattern, meaning in _EXPLANATIONS if re.search(pattern, problem, re.DOTALL)), problem
    )
    message = explanation.replace("FOUND", found).replace("QUOTE", QUOTE)
    return ContentError(f"not YAML: {message}", path, mark.line + 1 if mark else 1)
