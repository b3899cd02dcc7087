"""Dogwood: Cedar with `when temporal { … }`, conditions on earlier calls, by the guide of release 1.0 (August 2026).

An event of the kind `request` is a call that was allowed, `response` one that ended well, and `error` one that failed.
The call itself is the last event of its conditions, so a count of requests includes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from guardagent.translation.imports.cedar import assemble, pattern
from guardagent.translation.imports.cedar_conditions import (
    CALLED,
    INPUT,
    ConditionWriter,
    UntranslatableError,
    is_plain_name,
    joined,
    kind_of,
    member,
    quoted,
)
from guardagent.translation.imports.cedar_syntax import entity_parts
from guardagent.translation.imports.report import ImportOptions, ImportReport, RuleFormat, differences

_OUTCOMES = {"request": "", "response": "!failed({})", "error": "failed({})"}
EVERYWHERE = differences(
    stricter=(
        "an event has the time of its call, so a window on responses ends earlier for a permit",
        "a call in flight makes a condition on its response unknown, which denies",
    ),
    wider=(
        "a denied call is not an event here; Dogwood has its request in the history",
        "a rule that forbids looks back less far on responses, since an event has the time of its call",
        "`since`: of two events at one time the one that ends it comes later, unless both are of one tool",
        "the history is that of the session, and its principal and resource are those of each event",
    ),
)


def _read(text: str, name: str, options: ImportOptions) -> ImportReport:
    return assemble(("Dogwood", "the guide of Dogwood 1.0"), text, name, options, _event, EVERYWHERE)


@dataclass(frozen=True, slots=True)
class _PastEvent:
    """An event that a condition looks for: the tool, the kind, its fields with their terms, and further conditions."""

    tool: str
    kind: str
    fields: tuple[Any, ...]
    conditions: tuple[Any, ...] = ()

    @classmethod
    def of(cls, writer: ConditionWriter, tree: Any, conditions: Sequence[Any] = ()) -> _PastEvent:
        if kind_of(tree) != "event":
            raise UntranslatableError(f"a {kind_of(tree)} where an event was expected")
        _, action, kind = entity_parts(tree.children[0])
        if kind not in _OUTCOMES:
            raise UntranslatableError(f"an event of the kind {kind!r}")
        (tool,) = writer.tools_of([action], "==", is_list=False) or ("",)
        fields = tuple(entry.children for entry in tree.children[1].children if entry is not None)
        return cls(tool, kind, fields, tuple(conditions))

    def written(self, writer: ConditionWriter, arguments: str, output: str) -> list[str]:
        """The conditions on its fields, and the further ones. A free variable stands for its field from here on."""
        tests = []
        for path, term in self.fields:
            base, *names = map(str, path.children)
            is_own = base in ("callerPrincipal", "callerResource", "eventResource") and kind_of(term) == "variable"
            if is_own or kind_of(term) == "wildcard" or is_plain_name(term, "_"):
                continue
            if base not in ("input", "output") or not names:
                raise UntranslatableError(f"the field {'.'.join([base, *names])!r} of an event")
            value = arguments if base == "input" else output
            for name in names:
                tests.append(f"has({value}, {quoted(name)})")
                value = member(value, name)
            if kind_of(term) == "name" and str(term.children[0]) not in writer.names:
                writer.names[str(term.children[0])] = value
            else:
                tests.append(f"{value} == {writer.value(term)}")
        return [*tests, *(writer.condition(condition, None) for condition in self.conditions)]


def _event(writer: ConditionWriter, tree: Any) -> str:
    """Writes a temporal condition; an empty string for another node."""
    match kind_of(tree), getattr(tree, "children", ()):
        case "event", _:
            return _now(writer, _PastEvent.of(writer, tree))
        case "formerly", (window, body):
            return _formerly(writer, str(window), _PastEvent.of(writer, body))
        case "previous", (window, body):
            return _previous(writer, str(window), _PastEvent.of(writer, body))
        case "since", (left, window, right):
            return _since(writer, left, str(window), _PastEvent.of(writer, right))
        case "exists", (name, _, body):
            return _exists(_inside(writer, str(name)), str(name), *_conjuncts(body))
        case "count", (_, domain, body) | (domain, body):
            return _aggregate(_inside(writer, *map(str, domain.children[::2])), len(domain.children) // 2, body, "")
        case "total", (summed, domain, body):
            names = map(str, domain.children[::2])
            return _aggregate(_inside(writer, *names), len(domain.children) // 2, body, str(summed))
    return ""


def _inside(writer: ConditionWriter, *bound: str) -> ConditionWriter:
    """A writer whose further names are its own, and whose bound ones are free."""
    return replace(writer, names={name: text for name, text in writer.names.items() if name not in bound})


def _now(writer: ConditionWriter, event: _PastEvent) -> str:
    """The condition that the call itself is the event."""
    if event.kind != "request":
        return "false"
    return joined([f"{CALLED} == {quoted(event.tool)}", *event.written(_inside(writer), INPUT, "")], "&&")


def _past(writer: ConditionWriter, event: _PastEvent, more: Callable[[str], str] = lambda _: "") -> str:
    """A call pattern with its condition, for an earlier event; `more` is one on its label."""
    label = f"e{next(writer.labels)}"
    tests = [
        _OUTCOMES[event.kind].format(label),
        *event.written(writer, f"args({label})", f"output({label})"),
        more(label),
    ]
    return f"{label}:{pattern((event.tool,))}(), {joined(list(filter(None, tests)) or ['true'], '&&')}"


def _formerly(writer: ConditionWriter, window: str, event: _PastEvent) -> str:
    earlier = f"count({_past(_inside(writer), event)}, within {window}) > 0"
    return joined([_now(writer, event), earlier], "||") if event.kind == "request" else earlier


def _previous(writer: ConditionWriter, window: str, event: _PastEvent) -> str:
    if event.kind == "request":
        raise UntranslatableError("'previous' of a request, after which its response comes,")
    last = "last(p:*())"
    tests = [
        f"tool({last}) == {quoted(event.tool)}",
        f"now - time({last}) <= {window}",
        _OUTCOMES[event.kind].format(last),
    ]
    fields = event.written(_inside(writer), f"args({last})", f"output({last})")
    return joined(["count(p:*()) > 0", *tests, *fields], "&&")


def _since(writer: ConditionWriter, left: Any, window: str, anchor: _PastEvent) -> str:
    if kind_of(left) != "negation":
        raise UntranslatableError("'since' without a negation before it")
    ending = _PastEvent.of(writer, left.children[0])
    is_itself = anchor.tool == ending.tool and (anchor.kind, ending.kind) != ("request", "response")
    later = ">" if is_itself else ">="  # a call does not end what it begins

    def none_later(label: str) -> str:
        return f"count({_past(_inside(writer), ending, lambda other: f'time({other}) {later} time({label})')}) == 0"

    earlier = f"!({_now(writer, ending)}) && count({_past(_inside(writer), anchor, none_later)}, within {window}) > 0"
    return f"({_now(writer, anchor)} || {earlier})"


def _conjuncts(tree: Any) -> list[Any]:
    return list(tree.children) if kind_of(tree) == "all_of" else [tree]


def _exists(writer: ConditionWriter, name: str, first: Any, *others: Any) -> str:
    if kind_of(first) == "compared" and first.children[1] == "==" and is_plain_name(first.children[2], name):
        writer.names[name] = writer.value(first.children[0])
        return joined([writer.condition(other, None) for other in others] or ["true"], "&&")
    if kind_of(first) == "formerly":
        return _formerly(writer, str(first.children[0]), _PastEvent.of(writer, first.children[1], others))
    raise UntranslatableError(f"'exists' of {name!r} that is neither a field of an earlier event nor a count")


def _aggregate(writer: ConditionWriter, size: int, body: Any, summed: str) -> str:
    """A count or a sum of events, each with its own time; the call itself may be the last of them."""
    window, inner = body.children if kind_of(body) == "formerly" else ("", body)
    parts = _conjuncts(inner)
    events = [part for part in parts if kind_of(part) == "event"]
    times = [part for part in parts if kind_of(part) == "call" and part.children[0] == "tp"]
    if len(events) != 1 or len(times) != 1 or size != 1 + bool(summed):
        raise UntranslatableError("a count or a sum of other things than events at their times")
    event = _PastEvent.of(writer, events[0], [part for part in parts if part not in events + times])
    past, term, own = _past(earlier := _inside(writer), event), "", ""
    if event.kind == "request":
        own = f"count(i in [1], {_now(writer, event)})"
    if summed:
        term = f", {earlier.names.get(summed, '0')}"
        if own and writer.tools != (event.tool,):  # of another tool the amount would be unknown
            raise UntranslatableError("a sum of requests in a policy that is not of their action alone")
        event.written(ours := _inside(writer), INPUT, "")
        own = own and f"{ours.names.get(summed, '0')} * {own}"
    total = f"{'sum' if summed else 'count'}({past}{term}, within {window})" if window else ""
    return f"({' + '.join(filter(None, (total, own))) or '0'})"


FORMAT = RuleFormat("Dogwood", ("*.dw",), _read)
