"""Explains errors of the YAML parser to authors of rules: mostly, that a string needs quotes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from guardagent.errors import ContentError

if TYPE_CHECKING:
    from yaml import MarkedYAMLError

QUOTE = "quote the whole string, or write it on the lines below a '|'"

# (pattern of the context and problem of PyYAML, explanation). FOUND stands for the character at the place.
_EXPLANATIONS = (
    (r"character '\\t'", "a tab at the start of a line or value; expected spaces"),
    (r"character .* cannot start|node content", "an unquoted string cannot begin with 'FOUND'; QUOTE"),
    (r"entries are not|keys are not", "an unquoted string cannot begin with '- ' or '? '; QUOTE"),
    (r"an? (anchor|alias|tag)|undefined tag", "an unquoted string cannot begin with '&', '*' or '!'; QUOTE"),
    (
        r"values are not",
        "the part before ': ' is a key, and no key is allowed here; correct the indentation, or QUOTE",
    ),
    (
        r"quoted scalar.*(end of stream|document sep)",
        "the quote that opens here is not closed; expected a closing quote",
    ),
    (
        r"unknown escape",
        r"'\FOUND' is not an escape in double quotes; write two backslashes, or use single quotes or a '|'",
    ),
    (
        r"hexadecimal",
        r"'\x', '\u' and '\U' in double quotes need 2, 4 and 8 digits; write the digits, or use single quotes",
    ),
    (r"a flow", "an unquoted '[' or '{' begins a list or a mapping; close it, or QUOTE"),
    (r"a block scalar", "text follows '|' or '>'; write the string on the next lines, or QUOTE"),
    (r"a single document", "a second document begins here; expected one document, without '---'"),
    (r"a directive|YAML document", "a line that begins with '%' is a directive; remove it"),
    (r"<document start>", "text follows the end of the value; remove it, or QUOTE"),
    (
        r"'<scalar>'",
        "text follows a quote or a comment, or is indented too little; indent it further, or QUOTE",
    ),
    (r"a simple key", "expected 'key: value'; if the line continues a string, indent it further"),
    (r"a block (mapping|collection)", "the line is not aligned with the lines above; expected the same indentation"),
)
# Errors about a missing end are reported at the beginning, where the author mends them.
_AT_ITS_BEGINNING = ("end of stream", "stream end", "could not find expected")


def explain_error(error: MarkedYAMLError, text: str, path: Path) -> ContentError:
    """The error with its line, the problem and the remedy."""
    problem = ", ".join(filter(None, (error.context, error.problem)))
    begins = any(words in problem for words in _AT_ITS_BEGINNING)
    mark = (error.context_mark if begins else None) or error.problem_mark
    found = text[mark.index : mark.index + 1] if mark else ""
    explanation = next(
        (meaning for pattern, meaning in _EXPLANATIONS if re.search(pattern, problem, re.DOTALL)), problem
    )
    message = explanation.replace("FOUND", found).replace("QUOTE", QUOTE)
    return ContentError(f"invalid YAML: {message}", path, mark.line + 1 if mark else 1)
