"""The tools of an agent, from files, objects and servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from guardagent.errors import GuardError, InputError
from guardagent.translation.tools import ToolSchema, is_reading, read_tools, writing_tools

SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
HERE = "tests.translation.tools.agent"


def written(tmp_path: Path, value: Any) -> str:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}],
        [{"type": "function", "name": "f", "description": "d", "parameters": SCHEMA}],
        [{"name": "f", "description": "d", "input_schema": SCHEMA}],
        {"tools": [{"name": "f", "description": "d", "inputSchema": SCHEMA}]},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "f", "description": "d", "inputSchema": SCHEMA}]}},
        {"functions": [{"name": "f", "description": "d", "parameters": SCHEMA}]},
        [{"functionDeclarations": [{"name": "f", "description": "d", "parameters": SCHEMA}]}],
        {"name": "f", "description": "d", "parameters": SCHEMA},
        {"f": {"description": "d", "parameters": SCHEMA}},
    ],
)
def test_a_file_has_tools_in_any_common_form(tmp_path: Path, value: Any) -> None:
    """Each gives the same, also as a path and as its decoded value."""
    path = written(tmp_path, value)
    tools = [read_tools(source) for source in (path, Path(path), value)]
    assert tools == [(ToolSchema("f", "d", SCHEMA),)] * 3


def test_a_file_can_map_names_to_schemas(tmp_path: Path) -> None:
    """Without descriptions."""
    assert read_tools(written(tmp_path, {"f": SCHEMA}))[0].parameters == SCHEMA


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "is a int"),
        ([], "has no tools"),
        ([7], r"tools\[0\]: is a int"),
        ([{"title": "f"}], "has no name, only the keys 'title'"),
        ([{"name": "f"}], "'f' has no schema, only the keys 'name'"),
        ([{"name": "f", "descripton": "d", "parameters": {}}], "did you mean 'description'"),
        ([{"name": "f", "description": "d", "inputShema": {}}], "did you mean 'inputSchema'"),
        ([{"name": "f", "parameters": {}, "input_schema": {}}], "both 'parameters' and 'input_schema'"),
        ([{"name": "f", "parameters": {"type": "string"}}], "has the type 'string'"),
        ([{"name": "f", "parameters": {"properties": ["x"]}}], "'properties' is a list"),
        ([{"name": "f", "parameters": {"properties": {"x": "string"}}}], "argument 'x' is a str"),
        ([{"name": "f", "parameters": {"required": "x"}}], "'required' is 'x'"),
        ([{"name": "f", "parameters": {}}, {"name": "f", "parameters": {}}], "two tools are named 'f'"),
        ({"f": {"x": "string"}}, "'f': has the keys 'x'"),
        ({"f": 3}, "'f': is a int"),
    ],
)
def test_an_unusable_file_is_refused(tmp_path: Path, value: Any, message: str) -> None:
    """The message says what was found."""
    with pytest.raises(InputError, match=message):
        read_tools(written(tmp_path, value))


def test_a_function_is_described_by_its_hints_and_docstring() -> None:
    """Arguments, defaults, descriptions, and the output."""
    tool = read_tools(f"{HERE}:refund")[0]
    assert (tool.name, tool.description) == ("refund", "Refund an order.")
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "The order, as printed."},
            "amount": {"type": "number", "description": "In dollars."},
            "to": {"enum": ["card", "cash"], "type": "string", "default": "card", "description": "Where it goes."},
        },
        "required": ["order_id", "amount"],
        "additionalProperties": False,
    }
    assert tool.output_schema == {"additionalProperties": {"type": "number"}, "type": "object"}


def test_a_function_can_have_objects_and_further_arguments() -> None:
    """Their definitions come along."""
    parameters = read_tools(f"{HERE}:move")[0].parameters
    assert parameters["additionalProperties"] is True
    assert "city" in parameters["$defs"]["Address"]["properties"]
    assert parameters["properties"]["address"]["description"] == "the new one"


def test_objects_of_frameworks_are_read() -> None:
    """By the attributes that each of them has."""
    tools = read_tools(f"{HERE}:FRAMEWORKS")
    assert [tool.name for tool in tools] == list("abcefghi")
    assert all(tool.parameters["properties"] == {"x": {"type": "string"}} for tool in tools)
    assert all(tool.description == "d" for tool in tools)
    assert tools[2].output_schema == {"type": "string"}


def test_an_agent_has_its_tools() -> None:
    """And a mapping their names."""
    assert [tool.name for tool in read_tools(f"{HERE}:agent")] == ["refund", "ask"]
    assert [tool.name for tool in read_tools(f"{HERE}:by_name")] == ["pay"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (f"{HERE}:refnd", "did you mean 'refund'"),
        ("no_such_module:tools", "importing it failed"),
        (f"{HERE}:a_number", r"a_number\[1\] is a int"),
        (f"{HERE}:nothing", "has no tools"),
        (f"{HERE}:Tool", "is the class 'Tool'"),
        (f"{HERE}:odd", "'odd' has an argument without JSON schema"),
        (f"{HERE}:positional", "an argument has no name in a call"),
        ("mcp:", "has no command"),
        ("mcp:'x", "No closing quotation"),
        ("mcp:/no/such/server", "cannot be started"),
        ("none.json", "no such file"),
    ],
)
def test_an_unusable_source_is_refused(target: str, message: str) -> None:
    """The message says what was found."""
    with pytest.raises(InputError, match=message):
        read_tools(target)


SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    tools = [{"name": "f", "description": "d", "inputSchema": {"type": "object"}, "outputSchema": {"type": "string"}}]
    result = {"tools": tools} if message["method"] == "tools/list" else {}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def test_a_server_lists_its_tools(tmp_path: Path) -> None:
    """It is started and stopped."""
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    tools = read_tools(f"mcp:{sys.executable} {tmp_path / 'server.py'}")
    assert tools == (ToolSchema("f", "d", {"type": "object", "properties": {}}, {"type": "string"}),)


def test_a_server_that_ends_is_an_error() -> None:
    """Its tools are unknown."""
    with pytest.raises(GuardError, match="does not list its tools"):
        read_tools(f"mcp:{sys.executable} -c pass")


@pytest.mark.parametrize("value", [[], {}, {"tools": []}])
def test_nothing_is_no_tools(tmp_path: Path, value: Any) -> None:
    for source in (written(tmp_path, value), value):
        with pytest.raises(InputError, match="has no tools"):
            read_tools(source)


# --- tools that change something


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("get_order", True),
        ("searchFlights", True),
        ("orders.list", True),
        ("shop__lookup-user", True),
        ("HTTPGet", False),
        ("getaway_booking", False),
        ("update_status", False),
        ("x", False),
        ("___", False),
    ],
)
def test_a_verb_at_the_beginning_tells(name: str, reads: bool) -> None:
    assert is_reading(ToolSchema(name, "", {})) is reads


def test_the_author_of_a_tool_knows_better() -> None:
    """In JSON, and in objects."""
    schema = {"type": "object"}
    tools: list[dict[str, Any]] = [
        {"name": "get_and_delete", "inputSchema": schema, "annotations": {"readOnlyHint": False}},
        {"name": "balance", "inputSchema": schema, "annotations": {"readOnlyHint": True}},
        {"name": "refund", "inputSchema": schema, "annotations": {"title": "Refund"}},
    ]
    objects = [SimpleNamespace(**{**tool, "annotations": SimpleNamespace(**tool["annotations"])}) for tool in tools]
    for specs in (read_tools(tools), read_tools(objects)):
        assert [writing_tool.name for writing_tool in writing_tools(specs)] == ["get_and_delete", "refund"]
