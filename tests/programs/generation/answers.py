"""Sample answers of a model, for tests of the generating flow on the health-records agent."""

from __future__ import annotations

PLAN = """\
1. Access control with three roles.
2. nursing may read lab and patient, as far as this run needs them.
3. The code reads lab: labresult and patient: uniquepid.
4. Compare them through check_access and columns_read.
Engine: auto"""

PROGRAM = """\
ALLOWED = {
    "patient": ["uniquepid", "patientunitstayid", "hospitaladmittime"],
    "lab": ["patientunitstayid", "labresult"],
}


def check(agent_input, agent_output, facts):
    denied, inaccessible = check_access(ALLOWED, columns_read(agent_output))
    return {
        "label": int(denied),
        "reasons": ["may not read " + name for name in inaccessible],
        "details": {"inaccessible": inaccessible},
        "answer": None if denied else agent_output.split("Answer:")[-1].strip(),
    }
"""


def block(code: str, language: str = "python") -> str:
    return f"Here is the program.\n\n```{language}\n{code}\n```\n"


CODE = block(PROGRAM)
MISSPELT = block(PROGRAM.replace("check_access(", "check_acess("))
