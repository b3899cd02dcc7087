"""Samples as text for a model or a reviewer, within a limit of characters."""

from __future__ import annotations

import json
from collections.abc import Iterator

from guardagent.translation.samples import ToolSamples, TraceSamples
from guardagent.translation.samples_pieces.shapes import ShapePath


def render(samples: TraceSamples, limit: int = 20_000) -> str:
    """Returns samples as text of at most `limit` characters.

    All parts are shortened alike: each gets the same number of characters, and those that others do not need.
    """
    parts = ["\n".join(_tool_lines(one)) for one in samples.tools]
    parts += [
        "\n".join(lines) for lines in (_shape_lines("state", samples.state), _shape_lines("facts", samples.facts))
    ]
    left, texts = limit, {}
    for waiting, (index, part) in enumerate(sorted(enumerate(parts), key=lambda one: len(one[1]))):
        share = left // (len(parts) - waiting) - 1
        texts[index] = _cut(part, max(0, share))
        left -= len(texts[index]) + 1
    return "\n".join(texts[index] for index in range(len(parts)))[:limit]


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return text[: max(0, limit - 2)].rpartition("\n")[0] + "\n…" if limit > 2 else ""


def _tool_lines(samples: ToolSamples) -> Iterator[str]:
    yield f"tool {samples.tool}: {samples.calls} calls"
    for one in samples.examples:
        status = {None: "", True: " (failed)", False: ""}[one.failed]
        yield f"  {one.args} -> {'no output' if one.output is None else one.output}{status}"
    for failure in samples.failures:
        yield f"  failure {failure.prefix!r}: {failure.count}, {failure.others} of them recorded as not failed"
    yield from _shape_lines("  arguments", samples.arguments)
    yield from _shape_lines("  output", samples.outputs)


def _shape_lines(name: str, paths: tuple[ShapePath, ...]) -> Iterator[str]:
    for one in paths:
        values = f" in {json.dumps(one.values, ensure_ascii=False)}" if one.values else ""
        yield f"{name} {one.path}: {' or '.join(one.types)}{values}"
