"""Policies, cases and traces of a shop, for tests of commands that judge many records."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from guardagent import load_policies
from guardagent.batch.audit import judge_trace
from guardagent.batch.cases import judge_case
from guardagent.batch.pipeline import Job
from guardagent.batch.records import read_case, read_trace

POLICIES = """\
version: 1
toolbox: [shop.py]
failed_output: ^Error
policies:
  - id: login_first
    temporal: G(tool:refund -> O tool:login)
    message: log in first
  - id: small_refunds
    temporal: forall(refund(amount=a), a <= 100)
    message: at most 100
    on_violation: escalate
  - id: receipt
    temporal: after(refund(order=o), True, receipt(order=o), True)
    message: a receipt is owed
  - id: cheap
    temporal: forall(buy(price=p), p < 10)
    message: this is dear
    on_violation: warn
  - id: in_stock
    temporal: forall(buy(item=i), state(stock(i)) > 0)
"""
SHOP = '''\
def stock(state, item):
    """The number of items in stock."""
    return state["stock"][item] if state else None
'''
LOGIN: dict[str, Any] = {"tool": "login", "args": {}, "output": "welcome"}


def write_policies(folder: Path, text: str = POLICIES) -> Path:
    path = folder / "policies.yaml"
    path.write_text(text)
    (folder / "shop.py").write_text(SHOP)
    return path


def case(name: str, tool: str = "refund", history: Any = (LOGIN,), *, more: Any = None, **args: Any) -> dict[str, Any]:
    """A case; `more` holds its other keys."""
    return {"id": name, "history": list(history), "proposed": {"tool": tool, "args": args}, **(more or {})}


def call(tool: str, output: Any = "done", **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args, "output": output}


def trace(name: str, *events: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": name, "events": list(events), **more}


def write_lines(path: Path, *rows: Any) -> Path:
    """Writes each row as a line of JSON; a string is written unchanged."""
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def job(path: Path, policies: Path, *, traces: bool = False) -> Job:
    load: Callable[[], Any] = partial(load_policies, policies)
    return Job(str(path), load, *((read_trace, judge_trace) if traces else (read_case, judge_case)))
