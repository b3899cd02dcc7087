"""The tool calls of earlier sessions, from the transcripts that Claude Code keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent.hooks.call_arguments import judged_arguments
from guardagent.policy.policies import Policies

MAX_BYTES = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TranscriptCall:
    """One tool call of a transcript.

    Attributes:
        failed: None if the transcript has no result of it.
    """

    tool: str
    args: dict[str, Any]
    cwd: str
    output: Any = None
    failed: bool | None = None


def transcripts_of(project: Path, home: Path, limit: int = 3) -> list[Path]:
    """Returns the newest transcripts of a project."""
    folder = home / ".claude" / "projects" / "".join(one if one.isalnum() else "-" for one in str(project))
    files = [one for one in folder.glob("*.jsonl") if one.stat().st_size <= MAX_BYTES] if folder.is_dir() else []
    return sorted(files, key=lambda one: one.stat().st_mtime, reverse=True)[:limit]


def read_transcript(path: Path) -> list[TranscriptCall]:
    """Returns the calls of a transcript in order. Lines that cannot be read are left out."""
    lines = list(_lines(path))
    results = {
        one.get("tool_use_id"): one for line in lines for one in _content(line) if one.get("type") == "tool_result"
    }
    calls = []
    for line in lines:
        for one in _content(line):
            if one.get("type") == "tool_use" and isinstance(one.get("input"), dict):
                result = results.get(one.get("id"), {})
                failed = bool(result.get("is_error")) if result else None
                cwd = str(line.get("cwd") or "")
                calls.append(TranscriptCall(str(one.get("name")), one["input"], cwd, result.get("content"), failed))
    return calls


def stopped_calls(policies: Policies, calls: list[TranscriptCall]) -> list[tuple[TranscriptCall, str]]:
    """Returns the calls that a policy would have stopped or warned about, with the reasons."""
    session, found = policies.session(), []
    for call in calls:
        args = judged_arguments(call.tool, call.args, call.cwd)
        verdict = session.check(call.tool, args)
        if verdict.violations or verdict.label:
            found.append((call, "; ".join(verdict.reasons)))
        if verdict.label == 0:
            session.record(call.output, failed=bool(call.failed), permit=verdict.permit)
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                value = json.loads(text)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def _content(line: dict[str, Any]) -> list[dict[str, Any]]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
