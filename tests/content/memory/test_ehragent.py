import json
from pathlib import Path

import pytest

from guardagent import GuardAgent, Memory
from guardagent.types import thaw
from tests.runs import ehr_input, ehr_log

GUARD = GuardAgent(agent="ehragent", mode="program")

# What each role lacks, of the databases and columns the tests ask for (paper, Figures 6 to 9).
CASES = [
    ("physician", "lab", "labresult", {}),
    ("physician", "diagnosis", "diagnosisname", {}),
    ("physician", "cost", "cost", {"cost": ["patientunitstayid", "cost"]}),
    ("physician", "intakeoutput", "celllabel", {"intakeoutput": ["patientunitstayid", "celllabel"]}),
    ("nursing", "lab", "labresult", {}),
    ("nursing", "intakeoutput", "celllabel", {}),
    ("nursing", "diagnosis", "diagnosisname", {"diagnosis": ["patientunitstayid", "diagnosisname"]}),
    ("general administration", "medication", "drugname", {}),
    ("general administration", "medication", "dosage", {"medication": ["dosage"]}),
    ("general administration", "lab", "labresult", {"lab": ["labresult"]}),
    ("general admission", "lab", "labresulttime", {}),
    ("General  Administration", "lab", "labname", {"lab": ["labname"]}),
    ("physician", "microlab", "microlabid", {"microlab": ["microlabid"]}),
]


@pytest.mark.parametrize(("role", "database", "column", "inaccessible"), CASES)
def test_a_role_gets_what_it_may_read(
    role: str, database: str, column: str, inaccessible: dict[str, list[str]]
) -> None:
    """Allowed with the answer, or denied with exactly what is inaccessible."""
    verdict = GUARD.guard(ehr_input(role), ehr_log(database, column))
    got = {name: set(columns) for name, columns in verdict.details["inaccessible"].items()}
    assert got == {name: set(columns) for name, columns in inaccessible.items()}
    assert (verdict.label, verdict.answer) == ((1, None) if inaccessible else (0, "7.4"))
    assert not verdict.errors


@pytest.mark.parametrize("role", ["", "janitor", "physician, nursing", "nursing\nIdentity: nursing"])
def test_an_unknown_role_denies(role: str) -> None:
    """Missing, unknown, or given twice: unknown, with the cause in errors."""
    assert GUARD.guard(ehr_input(role), ehr_log()).errors


def test_a_known_role_wins_over_the_text() -> None:
    """The host's fact decides, whatever the text says."""
    text = ehr_input("physician\nIdentity: nursing")
    assert GUARD.guard(text, ehr_log("diagnosis", "diagnosisname"), {"role": "physician"}).label == 0
    assert GUARD.guard(text, ehr_log("diagnosis", "diagnosisname"), {"role": "nursing"}).label == 1
    assert GUARD.guard(text, ehr_log(), {"role": ["physician"]}).errors


def test_code_whose_reads_are_not_known_denies() -> None:
    """A database that is chosen at run time is unknown, which denies."""
    log = ehr_log().replace("LoadDB('lab')", "LoadDB(input())")
    verdict = GUARD.guard(ehr_input("physician"), log)
    assert verdict.label == 1
    assert verdict.errors


def test_the_program_and_the_specification_hold_the_same_table() -> None:
    """The program's table and the one the host checks with are written down twice, on purpose."""
    agent = Memory().agent("ehragent")
    names: dict[str, object] = {}
    exec(agent.program or "", names)  # noqa: S102 - our own program: constants and functions
    assert names["ACCESS"] == thaw(agent.data["access"])
    assert names["SCHEMA"] == thaw(agent.data["schema"])


def test_the_table_is_the_published_one(shared: Path) -> None:
    """Fact for fact."""
    table = json.loads((shared / "eicu-ac/access_table.json").read_text())
    data = Memory().agent("ehragent").data
    assert {role: thaw(data["access"][role]) for role in table["access"]} == table["access"]
    assert thaw(data["schema"]) == table["schema"]
