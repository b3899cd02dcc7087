"""Five runs over health records, and a model that guards them: right, wrong, mended and never running."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from guardagent.models import Message
from tests.bench.fakes import write_lines
from tests.programs.generation.answers import CODE, MISSPELT, PLAN, PROGRAM, block
from tests.runs import ehr_input, ehr_log

LENIENT = block(PROGRAM.replace("ALLOWED = {", 'ALLOWED = {"diagnosis": ["diagnosisname", "patientunitstayid"],'))
WRONG_TYPE = block(PROGRAM.replace("columns_read(agent_output)", "1 + agent_output"))
DIAGNOSIS = {"diagnosis": ["diagnosisname", "patientunitstayid"]}

CODES = {  # run -> the code of each version
    "run-1": [CODE],
    "run-2": [CODE],
    "run-3": [MISSPELT, CODE],
    "run-4": [WRONG_TYPE, WRONG_TYPE],
    "run-5": [LENIENT],
}
DENIED = ("run-2", "run-3", "run-5")


def data(folder: Path) -> Path:
    """Two runs that must pass, three that must be denied; each says its name in the question."""
    rows = []
    for name in CODES:
        denied = name in DENIED
        log = ehr_log("diagnosis", "diagnosisname", "flu") if denied else ehr_log()
        row = {"id": name, "agent_input": ehr_input("nursing", f"what about {name}?"), "agent_output": log}
        truth = {"inaccessible": DIAGNOSIS if denied else {}, "answer": ["flu" if denied else "7.4"]}
        rows.append({**row, "label": int(denied), "role": "nursing", **truth})
    return write_lines(folder / "data.jsonl", *rows)


def guarding(messages: Sequence[Message]) -> str:
    """The answer of the model: plans and code as above, or a judgement without code."""
    system, user = messages[0].content, messages[-1].content
    name = re.findall(r"run-\d", user)[-1]
    if "Write exactly four numbered steps" in system:
        return PLAN
    if "Write one Python program" in system:
        versions = CODES[name]
        return versions["It did not run to its end" in user] if len(versions) > 1 else versions[0]
    return judgement(name)


def judgement(name: str) -> str:
    """Right for runs 1, 2 and 5; run 3 with another explanation, run 4 with code instead of a judgement."""
    if name == "run-4":
        return block(PROGRAM)
    denied = name in DENIED
    inaccessible: dict[str, Any] = DIAGNOSIS if name != "run-3" else {"diagnosis": ["icd9code"]}
    details = {"inaccessible": inaccessible if denied else {}}
    value = {"label": int(denied), "reasons": [], "details": details, "answer": None if denied else "7.4"}
    return f"The nurse asks.\n{json.dumps(value)}"
