"""The command `watch`: the verdicts of hooks as they come, and answers to calls that wait for a person."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent.cli.output import print_line

if TYPE_CHECKING:
    from guardagent.hooks.hook_state import PendingAsk, PendingAsks

PAUSE_SECONDS = 0.5
_MARKS = {"allow": "+", "warn": "!", "deny": "-", "escalate": "?", "halt": "x"}
Once = Annotated[bool, typer.Option("--once", help="Show what is there now, answer what waits, and end.")]
Denials = Annotated[bool, typer.Option("--denials", help="Leave out calls that were allowed.")]


def watch(*, once: Once = False, denials: Denials = False) -> None:
    """Show the verdicts of installed hooks as they come, and answer calls that wait for a person."""
    from guardagent.hooks.hook_state import PendingAsks, state_folder
    from guardagent.server.state import open_state

    folder = state_folder()
    log = folder / "log.db"
    asks = PendingAsks(open_state(f"sqlite:{folder / 'asks.db'}"))
    seen, shown = 0, set[str]()
    while True:
        for seq, fields in _entries(log, seen):
            seen = seq
            is_allowed = fields.get("kind") == "verdict" and fields.get("decision") == "allow"
            if fields.get("kind") in ("verdict", "unchecked") and not (denials and is_allowed):
                print_line(_line(fields))
        _answer_new(asks, shown)
        if once:
            return
        time.sleep(PAUSE_SECONDS)


def _entries(log: Path, after: int) -> list[tuple[int, dict[str, Any]]]:
    """Returns the entries after a number, of those that are new at first: the last twenty."""
    from guardagent.log.verification import Selection

    if not log.exists():
        return []
    found = Selection(last=20 if after == 0 else 500).entries([str(log)])
    return [(one.entry.seq, one.fields) for one in found if one.entry.seq > after]


def _line(fields: dict[str, Any]) -> str:
    """Returns a verdict on one line, without control characters."""
    from guardagent._terminal import printable

    args = fields.get("args") or {}
    what = args.get("command") or args.get("file_path") or json.dumps(args, ensure_ascii=False, default=str)
    why = "" if fields.get("decision") == "allow" else "; ".join(map(str, fields.get("reasons") or []))
    mark = _MARKS.get(str(fields.get("decision")), " ")
    if fields.get("kind") == "unchecked":
        mark, why = "#", "; ".join(filter(None, ["it ran without a verdict that allows it", why]))
    parts = [mark, str(fields.get("time", ""))[11:19], str(fields.get("tool")), str(what)[:200], why and f"({why})"]
    return printable(" ".join(" ".join(parts).split()))


def _answer_new(asks: PendingAsks, shown: set[str]) -> None:
    """Shows each request that waits, once, and takes the answer if a person is at the terminal."""
    from guardagent.errors import InputError

    for ask in reversed(asks.pending()):
        if ask.name in shown:
            continue
        shown.add(ask.name)
        print_line(_question(ask))
        if not sys.stdin.isatty():
            continue
        answer = typer.prompt("approve this call, once? yes, no, or later", default="later")
        if answer.strip().lower() in ("y", "yes", "n", "no"):
            try:
                asks.answer(ask.name, approves=answer.strip().lower().startswith("y"))
            except InputError as error:
                print_line(str(error))


def _question(ask: PendingAsk) -> str:
    from guardagent._terminal import printable

    lines = [f"? {ask.host}, session {ask.session}, wants to call {ask.tool}:"]
    for name, value in ask.args.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        lines += [f"    {name}: {one}" for one in text.split("\n")]
    return "\n".join(printable(line) for line in [*lines, *(f"  because: {reason}" for reason in ask.reasons)])
