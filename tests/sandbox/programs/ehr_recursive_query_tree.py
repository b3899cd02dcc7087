"""Walks a nested query tree, in which every node may hold sub-queries."""

from collections.abc import Iterator
from functools import lru_cache

INHERITS = {"consultant": "resident", "resident": "student", "student": None}
OWN = {
    "student": {"case_study": ("title", "summary")},
    "resident": {"history": ("patient", "onset", "symptom")},
    "consultant": {"genetics": ("patient", "marker")},
}


@lru_cache(maxsize=None)
def allowed_tables(role: str) -> tuple:
    """A role has its own tables and those of the role below it."""
    if role not in OWN:
        return ()
    below = INHERITS[role]
    inherited = allowed_tables(below) if below else ()
    return tuple(OWN[role].items()) + inherited


def walk(node: dict, depth: int = 0) -> Iterator[tuple]:
    yield depth, node.get("from"), node.get("select", [])
    for child in node.get("where", []):
        if isinstance(child, dict):
            yield from walk(child, depth + 1)


def depth_of(node: dict) -> int:
    children = filter(lambda child: isinstance(child, dict), node.get("where", []))
    return 1 + max((depth_of(child) for child in children), default=0)


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    role, query = facts["role"], facts["query"]
    needed: dict = {}
    for depth, table, columns in walk(query):
        if table is None:
            raise ValueError("a query without a table at depth %d" % depth)
        needed.setdefault(table, [])
        needed[table] += [column for column in columns if column not in needed[table]]
    allowed = {table: list(columns) for table, columns in allowed_tables(role)}
    denied, inaccessible = check_access(allowed, needed)
    return {
        "label": 1 if denied else 0,
        "reasons": [f"{role} may not query {table}" for table in sorted(inaccessible, key=len, reverse=True)],
        "details": {"depth": depth_of(query), "needed": needed, "allowed": sorted(allowed)},
        "answer": None if denied else agent_output.strip(),
    }
