"""Shadow judging: the other side judges a sample of the runs again, a model for a program and a program for a model.

This happens in the background after the verdict, and changes no verdict. If the sides disagree, or the other side could
not judge, the run is pending for review: see `disagreements`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from guardagent._support.content import shipped_folder
from guardagent._support.files import MAX_BYTES
from guardagent._support.worker_thread import WorkerThread
from guardagent.errors import InputError
from guardagent.models.redaction import Redactor
from guardagent.programs.memory.agents import AgentMemory
from guardagent.programs.memory.disagreements import SIDES, Disagreement, SideVerdict, record_disagreement
from guardagent.types import Context, Verdict, thaw

MAX_LATE = 16
"""The maximal length of the queue; while it is full, further runs are not judged again."""

MAX_ERRORS = 100
"""How many errors of the other side one guard records: a model that is down must not fill the folder."""

Judge = Callable[[str, str, Mapping[str, Any]], Verdict]

_log = logging.getLogger("guardagent")


class Shadow:
    """Judges a sample of runs again, and records the disagreements.

    Args:
        folder: the agent's folder.
        rate: the share of runs, from 0 to 1. The sample depends on the content of the runs only.
        judges: side (of `disagreements.SIDES`) -> its judge.
        redactor: redacts the recorded files like prompts.
    """

    def __init__(self, folder: Path, rate: float, judges: Mapping[str, Judge], redactor: Redactor) -> None:
        self._folder, self._rate, self._judges, self._redactor = folder, rate, judges, redactor
        self._later = WorkerThread(MAX_LATE)
        self._errors = 0

    def observe(self, agent_input: Any, output_log: Any, facts: Any, enforced_side: str, verdict: Verdict) -> None:
        """Queues a run with its enforced verdict. Never raises and never blocks."""
        try:
            if not (_is_run(agent_input) and _is_run(output_log)):
                return  # not a valid run
            name = run_id(agent_input, output_log, facts)
            if sampled(name, self._rate):
                context_facts = Context(facts=facts or {}).facts  # a copy: the host may change its own
                again = partial(
                    self._rejudge, name, agent_input, output_log, context_facts, enforced_side, SideVerdict.of(verdict)
                )
                if not self._later.submit(again):
                    _log.info("run %s was not judged again: %d runs are queued", name, MAX_LATE)
        except Exception as error:  # noqa: BLE001 - a verdict never fails for its shadow
            _log.warning("a run was not judged again: %s", error)

    def wait(self) -> None:
        """Blocks until the queued runs are judged."""
        self._later.wait()

    def _rejudge(
        self,
        name: str,
        agent_input: str,
        output_log: str,
        facts: Mapping[str, Any],
        enforced_side: str,
        enforced_verdict: SideVerdict,
    ) -> None:
        try:
            other = next(one for one in SIDES if one != enforced_side)
            sides = {
                enforced_side: enforced_verdict,
                other: SideVerdict.of(self._judges[other](agent_input, output_log, facts)),
            }
            if self._differ(enforced_verdict, sides[other]):
                record_disagreement(
                    self._folder, self._redacted(name, agent_input, output_log, facts, enforced_side, sides)
                )
        except Exception as error:  # noqa: BLE001 - as above
            _log.warning("run %s was not judged again: %s", name, error)

    def _differ(self, enforced: SideVerdict, other: SideVerdict) -> bool:
        if not other.errors:
            return enforced.label != other.label
        self._errors += 1
        return self._errors <= MAX_ERRORS

    def _redacted(
        self,
        name: str,
        agent_input: str,
        output_log: str,
        facts: Mapping[str, Any],
        enforced_side: str,
        sides: Mapping[str, SideVerdict],
    ) -> Disagreement:
        """Returns the disagreement, redacted like a prompt."""
        hide = self._redactor.redaction().redact
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        facts_shown = json.loads(json.dumps(hide(thaw(facts)), default=str))
        shown = {
            one: SideVerdict(side.label, tuple(hide(list(side.reasons))), tuple(hide(list(side.errors))))
            for one, side in sides.items()
        }
        return Disagreement(name, now, hide(agent_input), hide(output_log), facts_shown, enforced_side, shown)


def run_id(agent_input: str, output_log: str, facts: Any) -> str:
    """Returns the id of a run, a digest of its content."""
    content = json.dumps([agent_input, output_log, thaw(facts or {})], sort_keys=True, default=str)
    return f"run-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def sampled(name: str, rate: float) -> bool:
    """Whether the run with this id is in a sample of this rate."""
    return int(name.removeprefix("run-"), 16) < rate * 16**16


def shadow_folder(rate: float, agent: AgentMemory | None) -> Path | None:
    """Returns the folder for an agent's disagreements; None for a rate of 0.

    Raises:
        InputError: the rate is invalid, no agent is named, or it is a shipped one.
    """
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
        raise InputError(f"'shadow' is {rate!r}; expected the share of runs to judge again, a number from 0 to 1")
    if not rate:
        return None
    if agent is None:
        raise InputError("'shadow' compares an agent's program with a model; expected the name of an agent")
    if agent.path.resolve().is_relative_to(shipped_folder("memory").resolve()):
        raise InputError(
            f"agent {agent.name!r} is shipped and cannot record disagreements; copy '{agent.path}' into a memory "
            "folder of your own, and pass that folder"
        )
    return agent.path


def _is_run(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip()) and len(text) <= MAX_BYTES
