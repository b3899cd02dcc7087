"""Follows short names such as `v = load("vitals")` before it decides which tables are read."""

import re
from collections import deque

ACCESS = {
    "physician": {"vitals": ["pulse", "pressure"], "notes": ["text", "author"], "labs": ["name", "result"]},
    "porter": {"transport": ["from_ward", "to_ward"]},
}


def make_tracker():
    """Returns two functions that share the table of aliases."""
    aliases = {}
    seen = 0

    def learn(name: str, table: str) -> int:
        nonlocal seen
        seen += 1
        aliases[name] = table
        return seen

    def resolve(name: str) -> str:
        hops = 0
        while name in aliases:
            name = aliases[name]
            hops += 1
            if hops > 20:
                break
        else:
            return name
        raise RuntimeError("aliases go round in a circle")

    return learn, resolve


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    role = facts.get("role") or agent_input.partition("as a ")[2].split(" ")[0]
    learn, resolve = make_tracker()
    pending = deque(line.strip() for line in agent_output.split("\n") if line.strip())
    needed: dict = {}
    count = 0
    while pending:
        line = pending.popleft()
        if m := re.fullmatch(r"(\w+)\s*=\s*load\([\"'](\w+)[\"']\)", line):
            count = learn(*m.groups())
        elif m := re.fullmatch(r"(\w+)\s*=\s*(\w+)", line):
            count = learn(m[1], m[2])
        else:
            for name, column in re.findall(r"(\w+)\.(\w+)", line):
                needed.setdefault(resolve(name), []).append(column)

    denied, inaccessible = check_access(ACCESS.get(role, {}), needed)
    print("aliases:", count, "needed:", needed)
    return {
        "label": 1 if denied else 0,
        "reasons": ["%s is closed to %s" % (table, role) for table in inaccessible],
        "details": {"aliases": count, "needed": needed, "inaccessible": inaccessible},
        "answer": None if denied else agent_output,
    }
