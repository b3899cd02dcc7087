"""Reads `define:` in a policy file, and requires names that rules can use."""

from __future__ import annotations

import re

from guardagent.policy.file.policy_keys import Key, by_name, reads, text
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.file.source_tree import SourceNode, shortened
from guardagent.policy.language.declarations import Definition

# Names that rules already use otherwise; a declared one could never be reached, or would change other rules.
RESERVED = frozenset(
    "AND OR NOT U W R S G F X O H Y true false True False null None none nil in matches within now principal state "
    "output args failed fact known len first last some count sum all any time sources seen counter "
    "before after seq forall exists flow tool action decision conversation confirmation".split()
)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_SIGNATURE = re.compile(r"([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?")


@reads(by_name.schema)
def _definitions(node: SourceNode, key: Key) -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for signature, body in by_name(node, key).items():
        definition = _definition(signature, body, node.fields[signature])
        if definition.name in found:
            raise node.fields[signature].error(f"{definition.name!r} is defined twice; expected one definition")
        found[definition.name] = definition
    return found


def _definition(signature: str, body: SourceText, place: SourceNode) -> Definition:
    match = _SIGNATURE.fullmatch(signature)
    if match is None:
        raise place.error(f"{shortened(signature)!r} is not 'name(parameter, ...)'; expected a name with parameters")
    check_name(match[1], place)
    parameters = tuple(one.strip() for one in match[2].split(",")) if (match[2] or "").strip() else ()
    for parameter in parameters:
        check_name(parameter, place)
    if len(set(parameters)) < len(parameters):
        raise place.error(f"{shortened(signature)!r} names a parameter twice; expected each name once")
    return Definition(match[1], parameters, body)


def check_name(name: str, place: SourceNode) -> None:
    """Requires a name that rules can use for a value."""
    if not IDENTIFIER.fullmatch(name):
        raise place.error(f"{shortened(name)!r} is not a valid name; expected letters, digits and '_'")
    if name in RESERVED:
        raise place.error(f"{name!r} is a word of the language; choose another name")


DEFINE = Key(
    "define",
    _definitions,
    "a mapping of 'name(parameter, ...)' to conditions",
    "Named conditions for rules, with parameters.",
    item=Key("definition", text, "a condition"),
)
