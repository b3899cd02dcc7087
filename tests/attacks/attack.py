"""Runs one attack on an engine and evaluates the attack's own criterion of success."""

import os
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from guardagent import Limits
from guardagent._support.execution import deny_on_crash
from guardagent.programs.program import program_check
from guardagent.sandbox import engine_names, load_sandbox
from guardagent.sandbox.toolbox import Toolbox
from guardagent.types import Context, Event

ATTACKS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "attacks.yaml").read_text())
ENGINES = [  # the default is one of the others
    pytest.param(name, marks=[pytest.mark.slow] if name == "auto" else []) for name in engine_names()
]
SECRET = "canary-GLOB-9999"  # noqa: S105
LIMITS = Limits(seconds=0.5)
FACTS: dict[str, Any] = {
    "allowed": {"patient": ["age"], "cost": ["uniquepid"]},
    "needed": {"cost": ["cost"], "patient": ["hospitaladmittime"]},
    "rules": {"over 18": "age >= 18"},
    "user": {"age": 12, "log": []},
}
EVENT = Event("agent_run", args={"input": "asked"}, output="answered")
TOOLBOX = Toolbox.load()
START = "".join(f"{name} = facts[{name!r}]\n" for name in FACTS) + "result = None\n"
END = """
if isinstance(result, dict) and "label" in result:
    return {"label": result["label"], "reasons": result.get("reasons", []), "details": {}, "answer": None}
return {"label": 1, "reasons": [], "details": {"result": result}, "answer": None}
"""


def wrapped(code: str) -> str:
    return "def check(agent_input, agent_output, facts):\n" + textwrap.indent(START + code + END, "    ")


class AttackOutcome:
    """The result of an attack: the verdict, and its cost for the host."""

    def __init__(self, engine: str, code: str, folder: Path) -> None:
        before = psutil.Process().memory_info().rss
        started = time.monotonic()  # an attack may also wait, which takes no CPU time
        with _AttackFolder(folder):
            self.verdict = judge(engine, wrapped(code))
        self.seconds = time.monotonic() - started
        self.grown = psutil.Process().memory_info().rss - before
        self.text = repr(self.verdict.to_dict()) + repr([call.result for call in self.verdict.calls])
        self.markers = [path.name for path in (folder / "markers").iterdir()]


def judge(engine: str, source: str, now: Any = None) -> Any:
    check = deny_on_crash(program_check(source, load_sandbox(engine, LIMITS), TOOLBOX))
    return check(EVENT, Context(facts=FACTS))


def succeeded(attack: dict[str, Any], engine: str, folder: Path) -> str:
    """Returns why the attack succeeded; empty if it failed."""
    criterion = attack.get("success") or attack["success_criterion"]
    kind, value = criterion["type"], criterion.get("value")
    wanted = repr(FACTS)
    outcome = AttackOutcome(engine, attack["code"], folder)
    if outcome.seconds > LIMITS.seconds + 1 + 1:  # the second one for a machine that is busy
        return f"took {outcome.seconds:.1f} s"
    if outcome.grown > 50_000_000:
        return f"the host grew by {outcome.grown:,} bytes"
    if outcome.verdict.label == 0:
        return "it was allowed"
    if outcome.markers or repr(FACTS) != wanted:
        return f"it changed the host: {outcome.markers}"
    if "canary-" in outcome.text and "canary-" not in attack["code"]:
        return "it found a secret"
    if kind == "result_contains" and _found(outcome.verdict.details.get("result"), value):
        return f"it gave {value}"
    if kind == "second_run_contains":
        return (
            "it left something"
            if value in AttackOutcome(engine, attack.get("probe") or criterion["probe"], folder).text
            else ""
        )
    return ""


def _found(result: Any, value: str) -> bool:
    return value in (result if isinstance(result, str) else repr(result))


class _AttackFolder:
    """Makes the attack's folder the current one, with the targets of attacks in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        self._back = Path.cwd()
        (self._folder / "markers").mkdir(exist_ok=True)
        (self._folder / "canary.txt").write_text("canary-FILE-5678")
        os.environ["GUARD_API_KEY"] = "canary-KEY-1234"
        os.chdir(self._folder)

    def __exit__(self, *_: object) -> None:
        os.chdir(self._back)
        del os.environ["GUARD_API_KEY"]
