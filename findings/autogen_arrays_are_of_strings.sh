#!/bin/sh
# Version: autogen-core 0.7.5
# Source: JSON Schema: an array without items has items of any kind. The docstring of schema_to_pydantic_model, with
#   which AutoGen makes the arguments of MCP tools, lists array, items and minimum among what it supports.
# Behaviour: such an array is one of strings: [1] is refused, and the schema made of the model tells the LLM so. The
#   bound of an item is dropped, though the bound of the property itself holds, and nothing is raised.
# Output seen:
#   shown to the model: {'type': 'string'}
#   array [1]: refused
#   array ['a']: taken
#   minimum 3 of a property, 1: refused
#   minimum 3 of items, [1]: taken
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile autogen-core==0.7.5
"$folder/venv/bin/python" - <<'PYTHON'
from autogen_core.utils import schema_to_pydantic_model
from pydantic import ValidationError

PROPERTIES = {
    "array": {"type": "array"},
    "count": {"type": "integer", "minimum": 3},
    "counts": {"type": "array", "items": {"type": "integer", "minimum": 3}},
}
model = schema_to_pydantic_model({"type": "object", "properties": PROPERTIES}, "Arguments")


def judge(name, value):
    try:
        model.model_validate({name: value})
    except ValidationError:
        return "refused"
    return "taken"


shown = str(model.model_json_schema()["properties"]["array"])
print("shown to the model:", {"type": "string"} if "{'type': 'string'}" in shown else shown)
answers = [judge("array", [1]), judge("array", ["a"]), judge("count", 1), judge("counts", [1])]
labels = ["array [1]", "array ['a']", "minimum 3 of a property, 1", "minimum 3 of items, [1]"]
for label, answer in zip(labels, answers, strict=True):
    print(f"{label}: {answer}")
assert "'items': {'type': 'string'}" in shown
assert answers == ["refused", "taken", "refused", "taken"]
PYTHON
