"""Classifies SQL statements by matching their words, then the parsed objects by class."""

from dataclasses import dataclass, field


@dataclass
class Read:
    table: str
    columns: list = field(default_factory=list)


@dataclass
class Write:
    table: str
    kind: str
    whole: bool = False


@dataclass
class Other:
    word: str


def parse(statement: str):
    words = statement.replace(",", " ").lower().split()
    match words:
        case []:
            return None
        case ["select", *columns, "from", table]:
            return Read(table, columns)
        case ["select", *rest] if "from" in rest:
            split_at = rest.index("from")
            return Read(rest[split_at + 1], rest[:split_at])
        case ["insert", "into", table, *_]:
            return Write(table, "insert")
        case ["delete", "from", table, *rest]:
            return Write(table, "delete", whole=not rest)
        case ["update", table, "set", *rest]:
            return Write(table, "update", whole="where" not in rest)
        case ["drop" | "truncate" as kind, "table", table]:
            return Write(table, kind, whole=True)
        case [word, *_]:
            return Other(word)


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    needed, notes = {}, []
    for statement in map(parse, agent_output.split(";")):
        match statement:
            case Read(table=name, columns=columns):
                needed.setdefault(name, []).extend(columns)
            case Write(table=name, whole=True, kind=kind):
                needed.setdefault(name, []).append(f"{kind} everything")
            case Write(table=name, kind="insert" | "update" | "delete" as kind):
                needed.setdefault(name, []).append(kind)
            case Other(word=word) if word not in ("begin", "commit"):
                notes.append(f"ignored {word!r}")
    denied, inaccessible = check_access(facts.get("grants", {}), needed)
    reasons = [f"{name}: {column}" for name, columns in inaccessible.items() for column in columns]
    return {"label": 1 if denied else 0, "reasons": reasons, "details": {"notes": notes, **needed}, "answer": None}
