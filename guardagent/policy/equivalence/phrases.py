"""Short phrases about tools, values and times, made from names: deterministic, without a model.

Descriptions of tools are JSON schemas as agent frameworks and MCP servers list them.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from guardagent.errors import InputError

# --- descriptions of tools

_SCHEMAS = ("inputSchema", "input_schema", "parameters", "schema")


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """A tool.

    Attributes:
        name: its name.
        description: its description; empty if it has none.
        arguments: the JSON schema of each argument; None if they are not known.
        required: the arguments that it needs.
        output: the JSON schema of its output; empty if it is unknown.
    """

    name: str
    description: str = ""
    arguments: Mapping[str, Mapping[str, Any]] | None = None
    required: frozenset[str] = field(default_factory=frozenset)
    output: Mapping[str, Any] = field(default_factory=dict)


def read_tools(tools: Any) -> dict[str, ToolDescription]:
    """Reads the descriptions of tools, by name.

    Args:
        tools: names, or objects with `name`, `description` and a schema under `inputSchema`, `input_schema` or
            `parameters`, or `{"type": "function", "function": {...}}`; also a mapping of names to such objects. The
            schema of the output is under `outputSchema` or `output_schema`.

    Raises:
        InputError: an entry has no name, or a wrong type.
    """
    if isinstance(tools, Mapping):
        tools = [{"name": name, **(tool or {})} for name, tool in tools.items()]
    if not isinstance(tools, Iterable) or isinstance(tools, str):
        raise InputError(f"'tools' is a {type(tools).__name__}; expected a list of names or of tool descriptions")
    tools_read = [_read(tool, at) for at, tool in enumerate(tools)]
    return {tool.name: tool for tool in tools_read}


def _read(value: Any, at: int) -> ToolDescription:
    if isinstance(value, ToolDescription):
        return value
    if isinstance(value, str) and value:
        return ToolDescription(value)
    if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
        value = value["function"]
    name = value.get("name") if isinstance(value, Mapping) else None
    if not isinstance(name, str) or not name:
        raise InputError(f"tools[{at}] has no name; expected the name of a tool, or an object with 'name' and a schema")
    schema = next((value[key] for key in _SCHEMAS if isinstance(value.get(key), Mapping)), None)
    properties = (schema or {}).get("properties") or {}
    return ToolDescription(
        name,
        str(value.get("description") or ""),
        None if schema is None else {key: schema_of(properties[key]) for key in properties},
        frozenset(name for name in (schema or {}).get("required") or () if isinstance(name, str)),
        schema_of(value.get("outputSchema") or value.get("output_schema")),
    )


def schema_of(value: Any) -> Mapping[str, Any]:
    """A JSON schema; one that allows everything for another value."""
    return value if isinstance(value, Mapping) else {}


# --- phrases

OTHER = "another_tool"
"""Stands for a tool that no draft names."""

_VERBS = frozenset(
    "add apply approve archive assign book buy calculate call cancel change charge check close confirm copy create "
    "delete deploy disable download edit enable exchange export find get grant import install list lock make merge "
    "modify move open order pay post publish push read refund reject remove rename request reserve reset restart "
    "return revoke run search sell send set share ship start stop submit transfer unlock update upload verify "
    "view write".split()
)
_LOGINS = frozenset({"login", "log in", "sign in", "authenticate", "authenticate user"})
_UNITS = ((604800, "week"), (86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_COUNTS = {2: "twice", 3: "three times", 4: "four times", 5: "five times", 6: "six times"}


def words_of(name: str) -> str:
    """A name as words: `orderId` and `order_id` are `order id`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return " ".join(re.split(r"[\s_.\-/:]+", spaced)).strip().lower()


def action_of(tool: str, tools: Mapping[str, ToolDescription]) -> str:
    """Returns what the agent does by a call: `logs in`, `cancels the reservation`."""
    words = words_of(tool)
    if words in _LOGINS or tool == OTHER:
        return "does something else" if tool == OTHER else "logs the user in"
    verb, *rest = words.split()
    if verb in _VERBS and rest:
        return f"{_third_person(verb)} the {' '.join(rest)}"
    if verb in _VERBS and not rest and (action := _described(tool, tools)):
        return action
    return f"calls {tool}"


def _described(tool: str, tools: Mapping[str, ToolDescription]) -> str:
    """Returns the first words of a description if they begin with the verb of the tool."""
    description = tools[tool].description if tool in tools else ""
    clause = re.split(r"[.,;:(\n]", description.strip(), maxsplit=1)[0]
    verb, *rest = clause.split() or [""]
    fits = verb.lower() in (tool.lower(), _third_person(tool.lower())) and 0 < len(rest) <= 4
    return f"{_third_person(tool.lower())} {' '.join(rest)}" if fits else ""


def _third_person(verb: str) -> str:
    if verb.endswith("y") and verb[-2] not in "aeou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("s", "sh", "ch", "x")) else f"{verb}s"


def lack_of(tool: str) -> str:
    """States that a tool was not called before: `no user has logged in`."""
    return "no user has logged in" if words_of(tool) in _LOGINS else f"{tool} was not called before"


def times(count: int) -> str:
    return _COUNTS.get(count, f"{count} times")


def value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"a list of {', '.join(map(value_text, value))}" if value else "an empty list"
    return value if isinstance(value, str) and value.strip() == value != "" else json.dumps(value, ensure_ascii=False)


def limit_text(value: Any, limit: Any) -> str:
    """The relation of a number to a limit: `exactly the limit`, `one cent more than 500`; empty for other values."""
    if any(isinstance(number, bool) or not isinstance(number, int | float | Fraction) for number in (value, limit)):
        return ""
    distance = Fraction(repr(value)) - Fraction(repr(limit))
    if not distance:
        return "exactly the limit"
    size = {Fraction(1): "one", Fraction(1, 100): "one cent"}.get(abs(distance))
    return f"{size} {'more' if distance > 0 else 'less'} than {value_text(limit)}" if size else ""


def duration_text(seconds: float, windows: tuple[float, ...] = ()) -> str:
    """A duration, in relation to the windows of the drafts: `24 hours exactly`, `one second more than 24 hours`."""
    for window in windows:
        if window and abs(seconds - window) <= 1:
            plain = _plain_duration(window)
            more = "more" if seconds > window else "less"
            return f"exactly {plain}" if seconds == window else f"one second {more} than {plain}"
    return _plain_duration(seconds)


def _plain_duration(seconds: float) -> str:
    if seconds in (86400, 172800):  # 24 hours are not always a day
        return f"{seconds / 3600:g} hours"
    length, unit = next(
        ((length, unit) for length, unit in _UNITS if seconds >= length and seconds % length == 0), _UNITS[-1]
    )
    count = seconds / length
    return f"{count:g} {unit}{'' if count == 1 else 's'}"


def moment_text(value: Any, now: dt.datetime | None, windows: tuple[float, ...]) -> str:
    """An instant near the time of the call, relative to it; empty for other values."""
    moment = _moment_of(value)
    if moment is None or now is None or abs((now - moment).total_seconds()) > 4e8:
        return ""
    age = (now - moment).total_seconds()
    return f"{duration_text(abs(age), windows)} {'ago' if age >= 0 else 'from now'}" if age else "now"


def _moment_of(value: Any) -> dt.datetime | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 1e8:
        return dt.datetime.fromtimestamp(value, dt.UTC)
    try:
        moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def clock_text(now: dt.datetime) -> str:
    return f"{now:%A}, {now:%H:%M}"


def joined(parts: list[str]) -> str:
    """Joins as in `a`, `a and b`, `a, b and c`."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
