#!/bin/sh
# Version: vakt 1.6.0 and py-abac 0.4.1
# Source: the docstrings. vakt: AllNotIn asks "Are all the items not in the list?", AnyNotIn whether any are not.
#   py-abac: AllNotIn is the condition that all values are not in the collection, AnyNotIn that any are not.
# Behaviour: in both AllNotIn holds as soon as one item is not in the list, so it says what AnyNotIn should; an empty
#   list apart. AnyNotIn of py-abac holds only if no item is, which is what AllNotIn should say: there the two are
#   swapped. A policy that moves from one library to the other keeps its words and changes its meaning.
# Output seen (for the list read, write):
#   items: read, list; vakt AllNotIn True, AnyNotIn True; py-abac AllNotIn True, AnyNotIn False
#   items: list, get; vakt AllNotIn True, AnyNotIn True; py-abac AllNotIn True, AnyNotIn True
#   items: read, write; vakt AllNotIn False, AnyNotIn False; py-abac AllNotIn False, AnyNotIn False
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile vakt==1.6.0 py-abac==0.4.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import vakt.rules.list as vakt_rules
from py_abac import PDP, AccessRequest, Policy
from py_abac.storage.memory import MemoryStorage


def py_abac(condition, items):
    rules = {"subject": {"$.items": {"condition": condition, "values": ["read", "write"]}}}
    document = {"uid": "1", "effect": "allow", "rules": {**rules, "resource": {}, "action": {}, "context": {}}}
    storage = MemoryStorage()
    storage.add(Policy.from_json({**document, "targets": {}, "priority": 0}))
    subject = {"id": "a", "attributes": {"items": items}}
    parts = {"resource": {"id": "b", "attributes": {}}, "action": {"id": "c", "attributes": {}}, "context": {}}
    return PDP(storage).is_allowed(AccessRequest.from_json({"subject": subject, **parts}))


SEEN = {
    ("read", "list"): [True, True, True, False],
    ("list", "get"): [True, True, True, True],
    ("read", "write"): [False, False, False, False],
}
for items, expected in SEEN.items():
    rules = (vakt_rules.AllNotIn, vakt_rules.AnyNotIn)
    answers = [rule("read", "write").satisfied(list(items)) for rule in rules]
    answers += [py_abac(condition, list(items)) for condition in ("AllNotIn", "AnyNotIn")]
    text = "vakt AllNotIn {}, AnyNotIn {}; py-abac AllNotIn {}, AnyNotIn {}".format(*answers)
    print(f"items: {', '.join(items)}; {text}")
    assert answers == expected
PYTHON
