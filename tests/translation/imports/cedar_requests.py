"""Random policies of Cedar and requests for them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

TYPES = {"amount": "long", "count": "long", "note": "text", "ok": "bool", "tags": "texts"}
VALUES: dict[str, list[Any]] = {
    "long": [-1, 0, 1, 2, 5],
    "text": ["a", "ab", 'b"*', "é\n"],
    "bool": [True, False],
    "texts": [[], ["a"], ["a", "ab"], ["b", "a"]],
}
TOOLS = ["pay", "Shop___refund", "wipe"]
USERS = ["ann", "bob"]
GROUPS = ["admins", "staff"]


def literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class PolicyMaker:
    """Makes conditions with attributes that a call may lack."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def attribute(self, kind: str) -> str:
        names = [name for name, of in TYPES.items() if of == kind]
        base = self.random.choice(["context.input", "context.input", "context.extra", "principal", "resource"])
        return f"{base}.{self.random.choice(names)}"

    def value(self, kind: str, depth: int = 2) -> str:
        if self.random.random() < 0.6 or not depth:
            return self.attribute(kind) if self.random.random() < 0.7 else literal(self.random.choice(VALUES[kind]))
        if kind == "long":
            return f"({self.value(kind, depth - 1)} {self.random.choice('+-*')} {self.value(kind, depth - 1)})"
        return (
            f"(if {self.condition(depth - 1)} then true else {self.value('bool', 0)})"
            if kind == "bool"
            else self.attribute(kind)
        )

    def condition(self, depth: int) -> str:
        pick = self.random.choice
        if depth and self.random.random() < 0.7:
            first, second = self.condition(depth - 1), self.condition(depth - 1)
            return pick(
                [
                    f"({first} && {second})",
                    f"({first} || {second})",
                    f"!({first})",
                    f"(if {first} then {second} else {self.condition(depth - 1)})",
                    f"({first} && {second} && {self.condition(0)})",
                ]
            )
        name = pick(list(TYPES))
        base = pick(["context.input", "principal", "resource", "context.extra"])
        kind = pick(["long", "text", "bool", "texts"])
        return pick(
            [
                f"{base} has {name}",
                f"{base} has {name} && {base}.{name} == {literal(pick(VALUES[TYPES[name]]))}",
                f"{self.value('long')} {pick(['<', '<=', '>', '>='])} {self.value('long')}",
                f"{self.value(kind)} {pick(['==', '!='])} {self.value(kind)}"
                if kind != "texts"
                else f"{self.attribute(kind)} == {literal(pick(VALUES[kind]))}",
                f"{self.attribute('text')} like {pick([chr(34) + 'a*' + chr(34), chr(34) + '*b*' + chr(34), chr(34) + 'b?' + chr(92) + '*' + chr(34)]).replace('?', chr(92) + chr(34))}",  # noqa: E501 - a rule on one line
                f"{self.attribute('texts')}.contains({self.value('text', 0)})",
                f"{self.attribute('texts')}.{pick(['containsAll', 'containsAny'])}({literal(pick(VALUES['texts']))})",
                f"{literal(pick(VALUES['texts']))}.{pick(['containsAll', 'containsAny'])}({self.attribute('texts')})",
                f"{self.attribute('texts')}.isEmpty()",
                self.attribute("bool"),
                f'principal == User::"{pick(USERS)}"',
                f'principal in Group::"{pick(GROUPS)}"',
                "resource.owner == principal",
                f'principal in [User::"ann", Group::"{pick(GROUPS)}"]',
                f"resource is {pick(['Doc', 'Box'])}",
                f'action == Action::"{pick(TOOLS)}"',
                'resource.owner != User::"ann"',
                "principal has amount.x",
            ]
        )

    def policy(self) -> str:
        pick = self.random.choice
        effect = pick(["permit", "permit", "forbid"])
        who = pick(
            ["principal", "principal", 'principal == User::"ann"', 'principal in Group::"staff"', "principal is User"]
        )
        action = pick(
            ["action", f'action == Action::"{pick(TOOLS)}"', f'action in [Action::"pay", Action::"{pick(TOOLS)}"]']
        )
        thing = pick(["resource", "resource", 'resource == Doc::"d"', 'resource is Doc in Group::"staff"'])
        clauses = [
            f"{pick(['when', 'when', 'unless'])} {{ {self.condition(2)} }}" for _ in range(self.random.randrange(3))
        ]
        return f"{effect}({who}, {action}, {thing}) {' '.join(clauses)};"

    def attributes(self, *, wrong: bool) -> dict[str, Any]:
        random = self.random
        kinds = {
            name: random.choice(list(VALUES)) if wrong and random.random() < 0.3 else kind
            for name, kind in TYPES.items()
        }
        return {name: random.choice(VALUES[kind]) for name, kind in kinds.items() if random.random() < 0.75}

    def request(self, *, wrong: bool = False) -> dict[str, Any]:
        """Returns a call with the facts about it."""
        random = self.random
        groups = [{"type": "Group", "id": name} for name in GROUPS if random.random() < 0.5]
        owner = {"type": "User", "id": random.choice(USERS)}
        resource = {
            "uid": {"type": random.choice(["Doc", "Box"]), "id": "d"},
            "attrs": {**self.attributes(wrong=wrong), "owner": owner},
        }
        user = {
            "uid": {"type": "User", "id": random.choice(USERS)},
            "attrs": self.attributes(wrong=wrong),
            "parents": groups,
        }
        context = {"extra": self.attributes(wrong=wrong)}
        facts = {"principal": user, "resource": {**resource, "parents": groups[:1]}, "context": context}
        return {"tool": random.choice(TOOLS), "args": self.attributes(wrong=wrong), "facts": facts}


def decide(policies: str, request: dict[str, Any]) -> tuple[bool, list[str]]:
    """Returns the decision of Cedar, and its errors."""
    import cedarpy

    facts = request["facts"]
    entities = [{**facts[name], "attrs": with_references(facts[name]["attrs"])} for name in ("principal", "resource")]
    entities += [{"uid": {"type": "Group", "id": name}, "attrs": {}, "parents": []} for name in GROUPS]
    call = {
        "principal": facts["principal"]["uid"],
        "action": {"type": "Action", "id": request["tool"]},
        "resource": facts["resource"]["uid"],
        "context": {**facts["context"], "input": request["args"]},
    }
    answer = cedarpy.is_authorized(call, policies, entities)
    assert answer.decision is not cedarpy.Decision.NoDecision, answer.diagnostics.errors
    return answer.allowed, answer.diagnostics.errors


def with_references(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: {"__entity": value} if name == "owner" else value for name, value in attributes.items()}
