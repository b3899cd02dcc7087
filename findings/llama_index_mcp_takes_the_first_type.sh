#!/bin/sh
# Version: llama-index-tools-mcp 0.6.0, with llama-index-core 0.14.25
# Source: JSON Schema: a list of types allows each of them, and oneOf one of its schemas. McpToolSpec makes the model of
#   a tool's arguments from the tool's input schema, and reads anyOf as a union of its types.
# Behaviour: of a list of types it keeps the first, so a limit that may be null cannot be null, though the tool requires
#   the property; oneOf and a property without a type become strings. The model refuses what the tool takes, and the LLM
#   is shown the narrower types.
# Output seen:
#   {'type': ['integer', 'null']} shown as integer, null refused
#   {'oneOf': [{'type': 'integer'}, {'type': 'null'}]} shown as string, null refused
#   {} shown as string, null refused
#   {'anyOf': [{'type': 'integer'}, {'type': 'null'}]} shown as anyOf, null taken
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile llama-index-tools-mcp==0.6.0 llama-index-core==0.14.25
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from llama_index.tools.mcp import McpToolSpec
from pydantic import ValidationError

INTEGER, NULL = {"type": "integer"}, {"type": "null"}
LIMITS = [{"type": ["integer", "null"]}, {"oneOf": [INTEGER, NULL]}, {}, {"anyOf": [INTEGER, NULL]}]
seen = []
for limit in LIMITS:
    schema = {"type": "object", "properties": {"limit": limit}, "required": ["limit"]}
    model = McpToolSpec(client=None).create_model_from_json_schema(schema, model_name="Search")
    shown = model.model_json_schema()["properties"]["limit"]
    try:
        model.model_validate({"limit": None})
        answer = "taken"
    except ValidationError:
        answer = "refused"
    seen.append((shown.get("type", "anyOf"), answer))
    print(limit, "shown as {}, null {}".format(*seen[-1]))
assert seen == [("integer", "refused"), ("string", "refused"), ("string", "refused"), ("anyOf", "taken")]
PYTHON
