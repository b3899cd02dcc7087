"""Traces the stages of a file transfer with a context manager made from a generator."""

import copy
from contextlib import contextmanager

DEFAULTS = {"mode": "copy", "overwrite": False, "paths": {"read": [], "write": []}}
SHARES = {"team-a": {"read": ["docs", "media"], "write": ["docs"]}, "team-b": {"read": ["docs"], "write": []}}
trace = []


@contextmanager
def stage(name, **notes):
    trace.append(("begin", name))
    try:
        yield notes
    except KeyError as error:
        trace.append(("error", f"{name}: {error}"))
        raise ValueError(f"{name} lacks {error}") from error
    finally:
        trace.append(("end", name))


def parse_job(text):
    job = copy.deepcopy(DEFAULTS)
    for word in text.split():
        name, eq, value = word.partition("=")
        if not eq:
            continue
        if name in job["paths"]:
            job["paths"][name] += value.split(",")
        elif isinstance(job.get(name), bool):
            job[name] = value in {"1", "yes", "true"}
        else:
            job[name] = value
    return job


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    trace.clear()
    with stage("parse", source="output") as notes:
        job = parse_job(agent_output)
        notes["words"] = len(agent_output.split())
    with stage("rights"):
        shares = SHARES[facts["team"]]
    with stage("check"):
        needed = {name: folders for name, folders in job["paths"].items() if folders}
        if job["mode"] == "move":
            needed.setdefault("write", []).extend(job["paths"]["read"])
        denied, inaccessible = check_access(shares, needed)
    assert DEFAULTS["paths"] == {"read": [], "write": []}
    return {
        "label": 1 if denied else 0,
        "reasons": [f"no right to {name} {', '.join(folders)}" for name, folders in inaccessible.items()],
        "details": {"trace": [": ".join(entry) for entry in trace], "notes": notes, "overwrite": job["overwrite"]},
        "answer": None if denied else job["mode"],
    }
