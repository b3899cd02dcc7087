"""Schemas as real servers write them: each tool attaches, valid calls pass, and all others are denied."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from guardagent.enforcement import HostCall, ToolSpec, run
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError
from tests.enforcement.guards import LIMIT, guard

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
ENTITY = {"type": "object", "properties": {"name": {"type": "string"}, "facts": {"type": "array", "items": {}}}}


class Shape(NamedTuple):
    """A schema, valid arguments with the defaults that they get, and arguments that are denied."""

    schema: dict[str, Any]
    fits: dict[str, Any]
    adds: dict[str, Any]
    denied: list[dict[str, Any]]


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


SHAPES = {
    "anything goes": Shape({"type": "object"}, {"sql": "select 1", "Any": {"x": 1}}, {}, []),
    "nothing goes": Shape(closed(), {}, {}, [{"path": "/"}]),
    "nothing, said twice": Shape({**closed(), "additionalProperties": False}, {}, {}, [{"path": "/"}]),
    "files": Shape(
        {**closed(path={"type": "string"}, head={"type": "number"}), "required": ["path"], "$schema": DRAFT_7},
        {"path": "/a", "head": 5},
        {},
        [{}, {"Path": "/a"}, {"path": "/a", "mode": "w"}, {"path": 7}],
    ),
    "edits": Shape(
        closed(
            path={"type": "string"}, edits={"type": "array", "items": closed(old={}, new={})}, dry={"default": False}
        ),
        {"path": "/a", "edits": [{"old": "a", "new": "b"}]},
        {"dry": False},
        [{"path": "/a", "edits": [{"old": "a", "New": "b"}]}],
    ),
    "a branch that looks ahead": Shape(
        closed(branch={"type": "string", "pattern": r"^(?!-)(?!.*\.\.)[^\s~^:]+$"}),
        {"branch": "main"},
        {},
        [{"branch": 7}],
    ),
    "a pattern of other scripts": Shape(
        closed(id={"type": "string", "pattern": r"^[\u0041-\u005A]\d{4}$"}), {"id": "A1234"}, {}, [{"id": None}]
    ),
    "a mail": Shape(
        closed(to={"type": "string", "format": "email", "pattern": r"^[\w.+-]+@[\w-]+\.[a-z]{2,}$"}),
        {"to": "ann@example.org"},
        {},
        [{"to": "ann"}],
    ),
    "null where none is allowed": Shape(
        closed(owner={"type": "string"}, per_page={"type": "integer", "default": None}), {"owner": "a"}, {}, []
    ),
    "a model that may be left out": Shape(
        {
            **closed(filter={"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}], "default": None}),
            "$defs": {"Filter": closed(state={"enum": ["open", "closed"]})},
        },
        {},
        {"filter": None},
        [{"filter": {"State": "open"}}, {"filter": {"state": "lost"}}],
    ),
    "nullable": Shape(
        closed(thread={"type": "string", "nullable": True, "default": None}), {"thread": None}, {}, [{"thread": 7}]
    ),
    "a choice by a constant": Shape(
        closed(
            block={
                "oneOf": [
                    {**closed(type={"const": "text"}, text={"type": "string"}), "required": ["type", "text"]},
                    {**closed(type={"const": "image"}, url={"type": "string"}), "required": ["type", "url"]},
                ]
            }
        ),
        {"block": {"type": "image", "url": "u"}},
        {},
        [{"block": {"type": "image"}}, {"block": {"type": "text", "text": "a", "more": 1}}],
    ),
    "a union at the top": Shape(
        {"type": "object", "anyOf": [{**closed(id={}), "required": ["id"]}, {**closed(name={}), "required": ["name"]}]},
        {"name": "a"},
        {},
        [{}, {"other": 1}],
    ),
    "if and then": Shape(
        {
            **closed(kind={"enum": ["card", "iban"]}),
            "if": {"properties": {"kind": {"const": "iban"}}},
            "then": {"properties": {"iban": {"type": "string"}}, "required": ["iban"]},
            "else": {"properties": {"card": {"type": "string"}}},
        },
        {"kind": "iban", "iban": "DE1"},
        {},
        [{"kind": "iban"}, {"kind": "iban", "IBAN": "DE1"}],
    ),
    "one needs the other": Shape(
        {**closed(lat={"type": "number"}, lon={"type": "number"}), "dependentRequired": {"lat": ["lon"]}},
        {"lat": 1.5, "lon": 2},
        {},
        [{"lat": 1.5}],
    ),
    "one excludes the other": Shape(
        {**closed(url={}, html={}), "not": {"required": ["url", "html"]}}, {"url": "u"}, {}, [{"url": "u", "html": "h"}]
    ),
    "headers": Shape(
        closed(headers={"type": "object", "additionalProperties": {"type": "string"}}),
        {"headers": {"Content-Type": "a", "content-length": "1"}},
        {},
        [{"headers": {"Content-Type": 1}}],
    ),
    "fields by pattern": Shape(
        {"type": "object", "patternProperties": {"^customfield_[0-9]+$": {}}, "additionalProperties": False},
        {"customfield_10": [1]},
        {},
        [{"other": 1}],
    ),
    "no others, in new words": Shape(
        {"allOf": [closed(a={"type": "integer"})], "unevaluatedProperties": False}, {"a": 1}, {}, [{"b": 1}, {"A": 1}]
    ),
    "others are free": Shape(
        {**closed(query={"type": "string"}), "additionalProperties": True},
        {"query": "q", "limit": 5},
        {},
        [{"Query": "q"}, {"query": "q", "query ": "r"}],
    ),
    "a tree": Shape(
        {
            **closed(root={"$ref": "#/$defs/Node"}),
            "$defs": {"Node": closed(v={"default": 0}, kids={"type": "array", "items": {"$ref": "#/$defs/Node"}})},
        },
        {"root": {"v": 1, "kids": [{"v": 2}]}},
        {},
        [{"root": {"kids": [{"kids": [{"V": 1}]}]}}],
    ),
    "itself again": Shape(
        closed(where={"type": "object"}, also={"$ref": "#"}), {"also": {"also": {}}}, {}, [{"also": {"b": 1}}]
    ),
    "old definitions": Shape(
        {
            "$schema": DRAFT_7,
            **closed(entities={"type": "array", "items": {"$ref": "#/definitions/Entity"}}),
            "definitions": {"Entity": ENTITY},
        },
        {"entities": [{"name": "a", "facts": ["b", 1]}]},
        {},
        [{"entities": [{"Name": "a"}]}],
    ),
    "a pair, as drafts wrote it": Shape(
        closed(at={"type": "array", "items": [{"type": "number"}, {"type": "number"}], "additionalItems": False}),
        {"at": [1, 2.5]},
        {},
        [{"at": ["a", 1]}, {"at": [1, 2, 3]}],
    ),
    "a pair": Shape(
        closed(at={"type": "array", "prefixItems": [closed(x={}), closed(y={})], "items": False}),
        {"at": [{"x": 1}, {"y": 1}]},
        {},
        [{"at": [{"y": 1}]}, {"at": [{"x": 1}, {"y": 1}, 7]}],
    ),
    "a bound of OpenAPI": Shape(
        closed(limit={"type": "integer", "minimum": 0, "exclusiveMinimum": True, "default": 10}),
        {},
        {"limit": 10},
        [{"limit": 0}],
    ),
    "whole numbers": Shape(closed(n={"type": "integer"}), {"n": 1.0}, {}, [{"n": 1.5}, {"n": "1"}, {"n": True}]),
    "true and false": Shape(closed(any=True, never=False), {"any": [1]}, {}, [{"never": 1}]),
    "several types": Shape(closed(id={"type": ["string", "integer"]}), {"id": 5}, {}, [{"id": 1.5}]),
    "no type at all": Shape({"properties": {"zone": {"default": "UTC"}}}, {}, {"zone": "UTC"}, [{"Zone": "UTC"}]),
    "an object inside that says nothing": Shape(
        closed(params={"type": "object", "properties": {}}), {"params": {"any": 1}}, {}, [{"params": []}]
    ),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_server_is_usable(shape: Shape) -> None:
    """Valid arguments run with their defaults; invalid ones never run."""
    ran: list[Any] = []
    tool_guard = guard(LIMIT)
    tool_guard.attach([ToolSpec("work", shape.schema)])
    call = HostCall("work", validate_arguments("work", shape.fits, shape.schema), "c")
    run(tool_guard, call, ran.append)
    assert ran == [{**shape.fits, **shape.adds}]
    for args in shape.denied:
        with pytest.raises(InputError, match="the arguments of 'work'"):
            validate_arguments("work", args, shape.schema)
