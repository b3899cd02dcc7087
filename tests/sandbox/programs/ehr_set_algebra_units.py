"""Combines the permissions of several roles and takes away what the ward has locked."""

from collections import defaultdict

BASE = {
    "midwife": {"birth": {"mother", "weight", "time"}, "vitals": {"pulse", "pressure"}},
    "anaesthetist": {"vitals": {"pulse", "pressure", "oxygen"}, "dose": {"drug", "amount"}},
    "auditor": {"dose": {"amount"}, "birth": {"time"}},
}
LOCKED = {"psychiatry": {"vitals": {"pressure"}}, "maternity": {"dose": {"drug"}}}


def merge(roles: list, ward: str) -> dict:
    rights = defaultdict(set)
    for role in roles:
        for table, columns in BASE.get(role, {}).items():
            rights[table] |= columns
    for table, columns in LOCKED.get(ward, {}).items():
        rights[table] -= columns
    for table in [name for name, columns in rights.items() if not columns]:
        del rights[table]
    return dict(rights)


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    roles = [name.strip().lower() for name in facts["roles"].split(",")]
    rights = merge(roles, facts.get("ward", ""))
    asked = {}
    for item in agent_output.split(";"):
        table, sep, names = item.partition(":")
        if not sep:
            continue
        asked.setdefault(table.strip(), set()).update(name.strip() for name in names.split(","))

    unknown = set(roles) - BASE.keys()
    shared = {table: sorted(rights[table] & asked[table]) for table in rights.keys() & asked.keys()}
    only_one_side = sorted(rights.keys() ^ asked.keys())
    denied, inaccessible = check_access(
        {table: sorted(columns) for table, columns in rights.items()},
        {table: sorted(columns) for table, columns in asked.items()},
    )
    reasons = [f"{table}: {sorted(set(columns))}" for table, columns in sorted(inaccessible.items())]
    details = {"shared": dict(sorted(shared.items())), "one_side": only_one_side, "unknown_roles": sorted(unknown)}
    if unknown:
        details["note"] = f"ignored {len(unknown)} role(s)"
    return {"label": int(denied), "reasons": reasons, "details": details, "answer": None if denied else agent_output}
