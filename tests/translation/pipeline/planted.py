"""A document with twelve ambiguities and eight contradictions, and a model that drafts each sentence by itself.

It translates both sentences of a contradiction faithfully. So only the checks of the whole policy can see it. Each rule
has one case, a greeting, which is read as its author expects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from guardagent.batch.cases import judge_case
from guardagent.batch.records import read_case
from guardagent.policy.load import load_policies
from tests.models.server import Reply, text
from tests.translation.library import block, case_sentences, sentences_of
from tests.translation.readings.ambiguous_document import CONTEXT, PLANTED

Behaviour = Literal["with both rules", "in words"]
BEHAVIOURS: tuple[Behaviour, ...] = ("with both rules", "in words")
FACTS = ("ticket", "approval", "issued_at", "rented_at")
_STRING, _NUMBER = {"type": "string"}, {"type": "number"}
_TOOLS: Mapping[str, Mapping[str, Any]] = {
    "pay_deposit_back": {"rented_at": _STRING},
    "change_price": {"price": _NUMBER},
    "give_rebate": {"amount": _NUMBER},
    "rent_bike": {"bike": _STRING},
    "inspect_bike": {"bike": _STRING},
    "report_damage": {"bike": _STRING},
    "write_letter": {"to": _STRING},
    "greet": {},
    "identify": {},
    "lend_helmet": {"fee": _NUMBER},
    "plan_tour": {"guests": _NUMBER},
}
TOOLS = {
    "tools": [
        *({"name": tool.name, "inputSchema": tool.parameters} for tool in CONTEXT.tools),
        *(
            {"name": name, "inputSchema": {"type": "object", "properties": properties}}
            for name, properties in _TOOLS.items()
        ),
    ]
}


@dataclass(frozen=True)
class Clause:
    """A sentence with its rule, the rule by its other reading, and how its author says that there is one."""

    sentence: str
    first: Mapping[str, Any]
    second: Mapping[str, Any]
    declarations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    behaviour: Behaviour | None = None


@dataclass(frozen=True)
class Contradiction:
    """Two clauses that cannot both hold, and one that can hold beside the first."""

    first: Clause
    second: Clause
    twin: Clause


def _same(sentence: str, temporal: str, **keys: Any) -> Clause:
    rule = {"temporal": temporal, **keys}
    return Clause(sentence, rule, rule)


CONTRADICTIONS = (
    Contradiction(
        _same("A deposit is never paid back.", "G !tool:pay_deposit_back"),
        _same(
            "A deposit is paid back within 30 days of the rental.",
            "forall(pay_deposit_back(rented_at=d), now - time(d) <= 30d)",
        ),
        _same("A price has at most four digits.", "forall(change_price(price=p), p < 10000)"),
    ),
    Contradiction(
        _same("Only managers change prices.", 'forall(change_price(), "manager" in principal.roles)'),
        _same("A manager does not change prices.", "G !tool:change_price", applies_to={"roles": ["manager"]}),
        _same("A trainee does not change prices.", "G !tool:change_price", applies_to={"roles": ["trainee"]}),
    ),
    Contradiction(
        _same("A rebate is at most 100 euros.", "forall(give_rebate(amount=a), a <= 100)"),
        _same("A rebate is at least 200 euros.", "forall(give_rebate(amount=a), a >= 200)"),
        _same("A rebate is at least 20 euros.", "forall(give_rebate(amount=a), a >= 20)"),
    ),
    Contradiction(
        _same(
            "A bike is inspected before it is rented.", "before(rent_bike(bike=b), true, inspect_bike(bike=b), true)"
        ),
        _same(
            "A bike is rented before it is inspected.", "before(inspect_bike(bike=b), true, rent_bike(bike=b), true)"
        ),
        _same("A bike is greeted before it is inspected.", "before(inspect_bike(), true, greet(), true)"),
    ),
    Contradiction(
        _same(
            "After a damage is reported, the owner gets a letter.",
            'after(report_damage(), true, write_letter(to=t), t == "owner")',
        ),
        _same("Letters never go to owners.", 'forall(write_letter(to=t), t != "owner")'),
        _same("Letters never go to guests.", 'forall(write_letter(to=t), t != "guest")'),
    ),
    Contradiction(
        _same("The first step is always a greeting.", "tool:greet"),
        _same("The first step is always the identification.", "tool:identify"),
        _same("A letter needs an identification.", "G(tool:write_letter -> O tool:identify)"),
    ),
    Contradiction(
        _same("Helmets are lent free of charge.", "forall(lend_helmet(fee=f), f == 0)"),
        _same("The fee for a helmet is 5 euros.", "forall(lend_helmet(fee=f), f == 5)"),
        _same("Helmets are lent after a greeting.", "before(lend_helmet(), true, greet(), true)"),
    ),
    Contradiction(
        _same(
            "A tour with more than 20 guests needs the approval of the manager.",
            "forall(plan_tour(guests=n), n <= 20)",
            on_violation="escalate",
        ),
        _same("No tour has more than 20 guests.", "forall(plan_tour(guests=n), n <= 20)"),
        _same("No tour has more than 40 guests.", "forall(plan_tour(guests=n), n <= 40)"),
    ),
)


def _ambiguities(*, are_planted: bool) -> Iterator[Clause]:
    for at, planted in enumerate(PLANTED):
        behaviour = BEHAVIOURS[at % 2]
        other = planted.second if are_planted else planted.first
        first, second = (
            each.rule if isinstance(each.rule, dict) else {"temporal": each.rule} for each in (planted.first, other)
        )
        declared = {**planted.first.declarations, **other.declarations}
        yield Clause(planted.sentence, first, second, declared, behaviour if are_planted else None)


class PlantedDocument:
    """The document, or its twin without ambiguities and contradictions.

    Attributes:
        text: in Markdown.
        sections: the clauses under each heading. The sentences of a contradiction stand under different ones, or side
            by side.
    """

    def __init__(self, *, is_twin: bool = False, are_apart: bool = True) -> None:
        others = [contradiction.twin if is_twin else contradiction.second for contradiction in CONTRADICTIONS]
        pairs = [(contradiction.first, other) for contradiction, other in zip(CONTRADICTIONS, others, strict=True)]
        firsts = [clause for clause, _ in pairs] if are_apart else [clause for pair in pairs for clause in pair]
        self.sections = {
            "Rentals": firsts,
            "Trade": list(_ambiguities(are_planted=not is_twin)),
            "Instructions of the owners": others if are_apart else [],
        }
        headed = [
            f"## {name}\n\n" + "\n\n".join(clause.sentence for clause in part) for name, part in self.sections.items()
        ]
        self.text = "# Bicycles and parcels\n\n" + "\n\n".join(headed) + "\n"

    @property
    def clauses(self) -> dict[int, Clause]:
        """The clauses by the numbers of their sentences; each heading has one too."""
        clauses, number = {}, 1
        for part in self.sections.values():
            number += 1  # the heading
            for clause in part:
                clauses[number := number + 1] = clause
        return clauses

    def reply(self, request: dict[str, Any]) -> Reply:
        """The script of the model: it repeats its draft, whatever is found."""
        template, numbers = sentences_of(request)
        if template == "read_cases":
            cases = case_sentences(request["messages"][-1]["content"])
            verdicts = ("against" if _greeting(self.clauses[sentence])["label"] else "fine" for sentence in cases)
            answer = {"cases": [{"case": at, "verdict": verdict} for at, verdict in enumerate(verdicts, 1)]}
        else:
            answer = self._survey(numbers) if template == "survey" else self._draft(numbers)
        return text(block(json.dumps(answer, indent=1) + "\n"))

    def _survey(self, numbers: Sequence[int]) -> dict[str, Any]:
        sentences = [
            {"number": number, "fate": "rule" if number in self.clauses else "definition"} for number in numbers
        ]
        return {"facts": [{"name": fact, "description": f"the {fact}"} for fact in FACTS], "sentences": sentences}

    def _draft(self, numbers: Sequence[int]) -> dict[str, Any]:
        clauses = {number: self.clauses[number] for number in numbers}
        declarations: dict[str, dict[str, Any]] = {}
        for clause in clauses.values():
            for key, value in clause.declarations.items():
                declarations.setdefault(key, {}).update(value)
        return {
            "declarations": declarations,
            "rules": [
                {
                    **clause.first,
                    "id": f"rule_{number}",
                    "quotes": [{"sentence": number, "words": clause.sentence.rstrip(".")}],
                    "message": f"This does not hold: {clause.sentence}",
                    "cases": [_greeting(clause, f"rule_{number}")],
                }
                for number, clause in clauses.items()
            ],
            "ambiguous": [_question(number, clause) for number, clause in clauses.items() if clause.behaviour],
        }


def _greeting(clause: Clause, rule: str = "rule") -> dict[str, Any]:
    """The greeting as the first call, as the rule alone judges it."""
    case = {"id": "greeting", "proposed": {"tool": "greet", "args": {}}}
    policies = load_policies(data={"version": 1, **clause.declarations, "policies": [{**clause.first, "id": rule}]})
    verdict = judge_case(policies, read_case(json.dumps(case), "a case", 1))
    return {**case, "label": verdict.label, **({"rules": [rule]} if verdict.label else {})}


def _question(number: int, clause: Clause) -> dict[str, Any]:
    readings = ["The narrow sense.", "The wide sense."]
    both = {"follows": 1, "otherwise": [{**clause.second, "id": f"rule_{number}"}]}
    question = {"sentence": number, "question": f"What does sentence {number} mean?", "readings": readings}
    return {**question, **(both if clause.behaviour == "with both rules" else {})}
