"""Invented runs of the three agents, for tests."""

from __future__ import annotations

SCRIPT = """\
patient_db = LoadDB('patient')
stays = FilterDB(patient_db, 'uniquepid=010-00001||max(hospitaladmittime)')
stay = GetValue(stays, 'patientunitstayid')
{database}_db = LoadDB('{database}')
rows = FilterDB({database}_db, 'patientunitstayid={{}}'.format(stay))
answer = GetValue(rows, '{column}')"""


def ehr_input(role: str, question: str = "what was found last?") -> str:
    return f"Identity: {role}\nQuestion: {question}"


def ehr_log(database: str = "lab", column: str = "labresult", answer: str = "7.4") -> str:
    code = SCRIPT.format(database=database, column=column)
    return f"Knowledge:\n- It stands in the {database} database.\n\nGenerated code:\n{code}\nAnswer:\n{answer}"


def web_input(task: str, **user: object) -> str:
    info = {"age": 40, "domestic": True, "dr_license": True, "vaccine": True, "membership": True} | user
    return f"Task: {task}\nUser information:\n" + "\n".join(f"  {key}: {value}" for key, value in info.items())


def web_log(choice: str = "Next") -> str:
    return (
        "(Next Action Based on Webpage and Analysis)\nThe page shows a list.\n\n"
        f"A. <a id=0> Back </a>\nB. <button id=1> {choice} </button>\n\n"
        "(Final Answer)\nELEMENT: B\n\nACTION: CLICK\n\nVALUE: None"
    )
