"""Takes the SELECT statements apart with regular expressions and maps every alias to its table."""

import re
import string

GRANTS = {
    "analyst": {"orders": ["id", "total", "placed_on"], "products": ["id", "title", "price"]},
    "support": {"orders": ["id", "status"], "customers": ["id", "name", "phone"]},
}
SELECT = re.compile(
    r"\bselect\s+(?P<columns>.+?)\s+from\s+(?P<tables>.+?)(?=\s+where\b|\s+order\b|\s+group\b|\s+limit\b|;|$)",
    re.IGNORECASE | re.DOTALL,
)
JOIN = re.compile(r"\s+(?:(?:inner|left|right)\s+)?join\s+|\s*,\s*", re.IGNORECASE)
QUOTES = str.maketrans("", "", '`"[]')


def table_aliases(clause: str) -> dict:
    aliases = {}
    for part in JOIN.split(clause):
        words = re.sub(r"\s+on\s+.*$", "", part, flags=re.I | re.S).split()
        name, alias = words[0].lower(), words[-1].lower()
        aliases[alias] = name
        aliases[name] = name
    return aliases


def plain_column(text: str) -> str:
    text = re.sub(r"\s+as\s+\w+$", "", text.strip(), flags=re.I)
    inner = re.fullmatch(r"\w+\((?:distinct\s+)?(.*)\)", text, re.I)
    return (inner.group(1) if inner else text).strip(string.whitespace + "()").lower()


def columns_read(sql: str) -> dict:
    needed = {}
    for found in SELECT.finditer(sql.translate(QUOTES)):
        aliases = table_aliases(found["tables"])
        tables = list(dict.fromkeys(aliases.values()))
        for column in map(plain_column, found["columns"].split(",")):
            prefix, dot, name = column.partition(".")
            owners = [aliases.get(prefix, prefix)] if dot else tables
            for owner in owners:
                needed.setdefault(owner, []).append(name if dot else column)
    return needed


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    role = facts.get("role", "support")
    needed = columns_read(agent_output)
    denied, inaccessible = check_access(GRANTS[role], needed)
    return {
        "label": 1 if denied else 0,
        "reasons": [f"{role}: {t}({', '.join(c)}) is not granted" for t, c in inaccessible.items()],
        "details": {"needed": needed, "statements": len(SELECT.findall(agent_output))},
        "answer": None if denied else agent_output.strip(),
    }
