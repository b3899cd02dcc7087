"""Changes ids of patients, orders, examples and the like, on which no verdict depends.

An id is a word with at least three digits other than a plain number, date or time; a number after a word such as
`order` or `id`; or the example's own id. Ids that the request or the specification names stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "ids are changed consistently in input and output; the label stays the same"

_WORD = re.compile(r"(?<![\w.-])[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*(?![\w-]|\.\d)")
_NAMED = re.compile(
    r"\b\w*(?:id|no|nr|number|order|patient|account|ticket|case|user|customer|member|ref|reference|invoice|booking)\b"
    r"\W{1,4}(\w*\d\w*)",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[\d_]+|\d{4}-\d\d(?:-\d\d)?|\d\d?-\d\d?-\d{2,4}|0[xX][0-9a-fA-F]+|\d+[a-zA-Z]{1,3}")
_PARTS = re.compile(r"[:/|\s]+")


def variants(example: Example, suite: Suite) -> Iterator[Variant]:
    target = suite.target
    known = f"{target.request}\n{target.whole_specification}"
    ids = [one for one in _ids(example) if not re.search(rf"(?<!\w){re.escape(one)}(?!\w)", known)]
    if not ids:
        return
    changed = replace(
        example, agent_input=_changed(example.agent_input, ids), agent_output=_changed(example.agent_output, ids)
    )
    yield Variant(changed, "same", f"other ids instead of {', '.join(ids[:4])}")


def _ids(example: Example) -> list[str]:
    text = f"{example.agent_input}\n{example.agent_output}"
    found = [word for word in _WORD.findall(text) if sum(map(str.isdigit, word)) >= 3 and not _PLAIN.fullmatch(word)]
    found += [match for match in _NAMED.findall(text) if sum(map(str.isdigit, match)) >= 3]
    for part in (example.id, *_PARTS.split(example.id)):
        if re.search(r"\d", part) and len(part) > 1 and re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text):
            found.append(part)
    return sorted(dict.fromkeys(found), key=len, reverse=True)


def _changed(text: str, ids: list[str]) -> str:
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(one)}(?!\w)" for one in ids))
    return pattern.sub(lambda match: re.sub(r"\d", lambda digit: str((int(digit[0]) + 3) % 10), match[0]), text)
