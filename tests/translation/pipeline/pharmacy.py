"""A policy document of a pharmacy with thirty sentences, its tools, and a scripted model that translates it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.models.server import Reply, text
from tests.translation.library import block, case_answer, sentences_of, situation

SENTENCES: list[tuple[str, str]] = [  # the text and its fate
    ("A patient is a person with a record in our system.", "definition"),
    ("Strong painkillers are the drugs of class A.", "definition"),
    ("Be kind to patients, also when they are impatient.", "not_enforceable"),
    ("Before a drug is dispensed, the record of the patient has been read.", "rule"),
    ("Never dispense more than 30 tablets at once.", "rule"),
    ("A dose of more than 30 tablets is therefore not possible.", "implied"),
    ("Strong painkillers are dispensed only with a prescription.", "rule"),
    ("Explain side effects in simple words.", "not_enforceable"),
    ("A prescription is valid for 28 days.", "rule"),
    ("If the drugs of a patient do not agree, a pharmacist decides.", "rule"),
    ("Do not guess what a patient means.", "not_enforceable"),
    ("A refund is paid only for an order of the same patient.", "rule"),
    ("A refund is at most 200 euros.", "rule"),
    ("Amounts are in euros.", "definition"),
    ("Refunds above 100 euros need the approval of the manager.", "rule"),
    ("Thank the patient after a refund.", "not_enforceable"),
    ("The patient has to agree to a refund in person.", "fact"),
    ("Stock is ordered on weekdays only.", "rule"),
    ("One order has at most 50 packs.", "rule"),
    ("Orders of more than 50 packs are split.", "implied"),
    ("Keep the store room tidy.", "not_enforceable"),
    ("Records are changed only after the identity is checked.", "rule"),
    ("A record is never deleted.", "rule"),
    ("Speak quietly about illnesses.", "not_enforceable"),
    ("After a change of a record, the patient is notified.", "rule"),
    ("Notifications are friendly.", "not_enforceable"),
    ("Messages go only to the address in the record.", "rule"),
    ("A month has 30 days.", "definition"),
    ("Read the news about recalls every morning.", "not_enforceable"),
    ("Wear the badge visibly.", "not_enforceable"),
]
DOCUMENT = "# Pharmacy\n\n" + "\n\n".join(sentence for sentence, _ in SENTENCES) + "\n"
FIRST = 2  # the number of the first sentence; the heading has number 1
RULES = [FIRST + at for at, (_, fate) in enumerate(SENTENCES) if fate == "rule"]
_STRING, _NUMBER = {"type": "string"}, {"type": "number"}


def _tool(name: str, **arguments: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": arguments}}


TOOLS = {
    "tools": [
        _tool("read_record", patient=_STRING),
        _tool("check_identity", patient=_STRING),
        _tool("dispense", patient=_STRING, drug=_STRING, tablets=_NUMBER),
        _tool("refund", patient=_STRING, order=_STRING, amount=_NUMBER),
        _tool("get_order", order=_STRING),
        _tool("order_stock", drug=_STRING, packs=_NUMBER),
        _tool("change_record", patient=_STRING),
        _tool("delete_record", patient=_STRING),
        _tool("notify", patient=_STRING, address=_STRING),
    ]
}
FACTS = {
    "prescription": "whether a prescription is there",
    "prescribed_at": "the time of the prescription (ISO 8601)",
    "drug_class": "the class of the drug: A, B or C",
    "drugs_agree": "whether the drugs of the patient agree",
}

_A = {"patient": "p1", "drug": "d", "tablets": 10}
_NOW = "2026-03-02T10:00:00Z"  # a Monday


def _case(name: str, label: int, tool: str, args: Mapping[str, Any], rules: Iterable[str] = (), **more: Any) -> Any:
    return {"id": name, **more, "proposed": {"tool": tool, "args": dict(args)}, "label": label, "rules": list(rules)}


def _called(tool: str, output: str = "ok", **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args, "output": output}


def _rule(
    id: str,  # noqa: A002 - as in the file
    temporal: str,
    tool: str,
    allowed: list[Mapping[str, Any]],
    violating: list[Mapping[str, Any]],
    unknown: Mapping[str, Any] | None,
    **more: Any,
) -> dict[str, Any]:
    """A rule; a case is the arguments of the call, with its surroundings under `_`."""

    def case(name: str, label: int, args: Mapping[str, Any], rules: list[str]) -> Any:
        own = {key: value for key, value in args.items() if key != "_"}
        return _case(name, label, tool, own, rules, **args.get("_", {}))

    cases = [case(f"allowed {at}", 0, call, []) for at, call in enumerate(allowed, 1)]
    cases += [case(f"violating {at}", 1, call, [id]) for at, call in enumerate(violating, 1)]
    cases += [] if unknown is None else [case("unknown", 1, unknown, [])]
    return {"id": id, "temporal": temporal, "message": f"The rule {id} does not hold.", "cases": cases, **more}


def _facts(**facts: Any) -> dict[str, Any]:
    return {"_": {"facts": facts}}


def _history(*calls: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"_": {"history": list(calls), **more}}


_READ = _called("read_record", patient="p1")
_ORDER = _called("get_order", '{"patient": "p1"}', order="o1")
_CHANGE = {"patient": "p1"}
_CHANGED, _NOTIFIED = _called("change_record", patient="p1"), _called("notify", patient="p1")
_OTHER = _called("notify", patient="p2")
DRAFTS: dict[str, dict[str, Any]] = {
    "Before a drug": _rule(
        "record_read",
        "before(dispense(patient=p), true, f:read_record(patient=p), true)",
        "dispense",
        [_A | _history(_READ), _A | _history(_READ, _READ)],
        [_A, {**_A, "patient": "p2"} | _history(_READ)],
        {"drug": "d"} | _history(_READ),
    ),
    "Never dispense": _rule(
        "tablet_limit",
        "forall(dispense(tablets=n), n <= 30)",
        "dispense",
        [{"tablets": 30}, {"tablets": 29}],
        [{"tablets": 31}, {"tablets": 300}],
        {},
    ),
    "Strong painkillers are dispensed": _rule(
        "painkiller_prescription",
        'forall(dispense(), fact(drug_class) == "A" -> fact(prescription) == true)',
        "dispense",
        [_A | _facts(drug_class="A", prescription=True), _A | _facts(drug_class="B", prescription=False)],
        [_A | _facts(drug_class="A", prescription=False)] * 1,
        _A | _facts(prescription=False),
    ),
    "A prescription is valid": _rule(
        "prescription_age",
        "forall(dispense(), fact(prescription) == true -> now - time(fact(prescribed_at)) <= 28d)",
        "dispense",
        [
            _A | {"_": {"facts": {"prescription": True, "prescribed_at": "2026-02-02T10:00:00Z"}, "now": _NOW}},
            _A | {"_": {"facts": {"prescription": False}, "now": _NOW}},
        ],
        [_A | {"_": {"facts": {"prescription": True, "prescribed_at": "2026-02-02T09:59:59Z"}, "now": _NOW}}],
        _A | {"_": {"facts": {"prescription": True}, "now": _NOW}},
    ),
    "If the drugs": _rule(
        "drugs_agree",
        "forall(dispense(), fact(drugs_agree) == true)",
        "dispense",
        [_A | _facts(drugs_agree=True), {} | _facts(drugs_agree=True)],
        [_A | _facts(drugs_agree=False)],
        _A,
        on_violation="escalate",
    ),
    "A refund is paid": _rule(
        "own_order",
        "before(refund(patient=p, order=o), true, f:get_order(order=o), output(f).patient == p)",
        "refund",
        [
            {"patient": "p1", "order": "o1"} | _history(_ORDER),
            {"patient": "p1", "order": "o1"} | _history(_READ, _ORDER),
        ],
        [{"patient": "p2", "order": "o1"} | _history(_ORDER), {"patient": "p1", "order": "o2"} | _history(_ORDER)],
        {"order": "o1"} | _history(_ORDER),
    ),
    "A refund is at most": _rule(
        "refund_limit",
        "forall(refund(amount=a), a <= 200)",
        "refund",
        [{"amount": 200}, {"amount": 1}],
        [{"amount": 201}, {"amount": 200.01}],
        {},
    ),
    "Refunds above": _rule(
        "refund_approval",
        "forall(refund(amount=a), a <= 100)",
        "refund",
        [{"amount": 100}, {"amount": 1}],
        [{"amount": 101}, {"amount": 100.01}],
        {},
        on_violation="escalate",
    ),
    "Stock is ordered": _rule(
        "weekdays",
        "forall(order_stock(), weekday(now) <= 5)",
        "order_stock",
        [{"_": {"now": _NOW}}, {"_": {"now": "2026-03-06T10:00:00Z"}}],
        [{"_": {"now": "2026-03-07T10:00:00Z"}}, {"_": {"now": "2026-03-08T10:00:00Z"}}],
        {"packs": 1},
    ),
    "One order": _rule(
        "pack_limit",
        "forall(order_stock(packs=n), n <= 50)",
        "order_stock",
        [{"packs": 50}, {"packs": 49}],
        [{"packs": 51}, {"packs": 500}],
        {},
    ),
    "Records are changed": _rule(
        "identity_checked",
        "before(change_record(patient=p), true, f:check_identity(patient=p), true)",
        "change_record",
        [
            _CHANGE | _history(_called("check_identity", patient="p1")),
            _CHANGE | _history(_READ, _called("check_identity", patient="p1")),
        ],
        [_CHANGE, _CHANGE | _history(_called("check_identity", patient="p2"))],
        {} | _history(_called("check_identity", patient="p1")),
    ),
    "A record is never": _rule(
        "no_deletion", "G !tool:delete_record", "delete_record", [], [_CHANGE, {}, _CHANGE | _history(_READ)], None
    ),
    "After a change": {
        "id": "change_notified",
        "temporal": "after(change_record(patient=p), true, notify(patient=p), true)",
        "message": "The patient is notified of the change.",
        "cases": [
            {"id": "notified", "events": [_CHANGED, _NOTIFIED], "label": 0, "rules": []},
            {"id": "no change", "events": [_READ], "label": 0, "rules": []},
            {"id": "never", "events": [_CHANGED], "label": 1, "rules": ["change_notified"]},
            {"id": "before", "events": [_NOTIFIED, _CHANGED], "label": 1, "rules": ["change_notified"]},
            {"id": "another", "events": [_CHANGED, _OTHER], "label": 1, "rules": ["change_notified"]},
        ],
    },
    "Messages go": _rule(
        "own_address",
        "before(notify(patient=p, address=a), true, f:read_record(patient=p), output(f).address == a)",
        "notify",
        [
            {"patient": "p1", "address": "x"} | _history(_called("read_record", '{"address": "x"}', patient="p1")),
            {"patient": "p1", "address": "x"}
            | _history(_READ, _called("read_record", '{"address": "x"}', patient="p1")),
        ],
        [
            {"patient": "p1", "address": "y"} | _history(_called("read_record", '{"address": "x"}', patient="p1")),
            {"patient": "p2", "address": "x"} | _history(_called("read_record", '{"address": "x"}', patient="p1")),
        ],
        {"patient": "p1"} | _history(_called("read_record", '{"address": "x"}', patient="p1")),
    ),
}


def draft_of(sentence: str) -> dict[str, Any]:
    return next(rule for start, rule in DRAFTS.items() if sentence.startswith(start))


def survey_answer(numbers: Iterable[int], changes: Mapping[int, Mapping[str, Any]] | None = None) -> str:
    """The survey of the sentences; `changes` replace keys by number."""
    sentences = [_surveyed(number) | dict((changes or {}).get(number, {})) for number in numbers]
    facts = [{"name": name, "description": about} for name, about in FACTS.items()]
    return json.dumps({"failed_output": "^Error", "facts": facts, "sentences": sentences}, indent=1)


def _surveyed(number: int) -> dict[str, Any]:
    if number - FIRST >= len(SENTENCES):
        return {"number": number}
    if number < FIRST:
        return {"number": number, "fate": "definition"}
    fate = SENTENCES[number - FIRST][1]
    reason = {"not_enforceable": "No call shows it.", "fact": "Only the host can know it."}.get(fate)
    others = {"implied_by": [number - 1]} if fate == "implied" else {}
    return {"number": number, "fate": fate, **({"reason": reason} if reason else {}), **others}


def rule_answer(number: int, **changes: Any) -> dict[str, Any]:
    """The rule for a sentence, as a model writes it."""
    sentence = SENTENCES[number - FIRST][0]
    return {**draft_of(sentence), "quotes": [{"sentence": number, "words": sentence.rstrip(".")}], **changes}


def draft_answer(numbers: Iterable[int], changes: Mapping[int, Mapping[str, Any]] | None = None) -> str:
    """The rules for sentences; the key `ambiguous` of a change is an ambiguity of the sentence."""
    known = {number: dict((changes or {}).get(number, {})) for number in numbers}
    doubts = [
        {"sentence": number, **change.pop("ambiguous")} for number, change in known.items() if "ambiguous" in change
    ]
    rules = [rule_answer(number, **change) for number, change in known.items()]
    return json.dumps({"rules": rules, "ambiguous": doubts}, indent=1)


LABELS = {situation(case): case["label"] for rule in DRAFTS.values() for case in rule["cases"]}
"""How the document means the cases."""


def pharmacist(
    survey: Mapping[int, Mapping[str, Any]] | None = None,
    first: Mapping[int, Mapping[str, Any]] | None = None,
    read: Mapping[str, int] | None = None,
    answered: Callable[[str, tuple[int, ...], str], str | None] = lambda *_: None,
) -> Callable[[dict[str, Any]], Reply]:
    """A script that translates the document.

    Args:
        survey: changes of the survey, by the number of the sentence.
        first: those of the draft.
        read: labels of cases that the reader takes otherwise than the document.
        answered: gets template, numbers and the user's message of each request; its result is sent instead, if any.
    """
    changed = [case for change in (first or {}).values() for case in change.get("cases", ())]
    labels = {**LABELS, **{situation(case): case["label"] for case in changed}, **(read or {})}

    def reply(request: dict[str, Any]) -> Reply:
        template, numbers = sentences_of(request)
        user = request["messages"][-1]["content"]
        if (other := answered(template, numbers, user)) is not None:
            return text(other)
        if template == "survey":
            return text(block(survey_answer(numbers, survey) + "\n"))
        if template == "read_cases":
            return text(block(case_answer(user, labels)))
        return text(block(draft_answer(numbers, first) + "\n"))

    return reply


def numbered(words: str) -> int:
    """The number of the sentence that begins with some words."""
    return next(FIRST + at for at, (sentence, _) in enumerate(SENTENCES) if re.match(words, sentence))
