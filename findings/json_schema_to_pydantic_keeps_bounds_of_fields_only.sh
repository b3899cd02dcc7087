#!/bin/sh
# Version: json-schema-to-pydantic 0.5.0, with pydantic 2.14.4
# Source: the README: it makes Pydantic models from JSON schemas and supports constraints, validations and the
#   combiners. The schema of a Pydantic model is such a schema.
# Behaviour: minimum holds for a property itself. Below anyOf (as Pydantic writes an optional field), items or
#   additionalProperties it is dropped without a warning, and values of a dict may have any type. The model made from
#   the schema of another one takes what that one refuses.
# Output seen:
#   plain 3: original refuses, copy refuses
#   optional 3: original refuses, copy takes
#   items [3]: original refuses, copy takes
#   values {'a': 3}: original refuses, copy takes
#   values {'a': 'x'}: original refuses, copy takes
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile json-schema-to-pydantic==0.5.0 pydantic==2.14.4
"$folder/venv/bin/python" - <<'PYTHON'
from typing import Annotated

from json_schema_to_pydantic import create_model
from pydantic import BaseModel, Field, ValidationError

AtLeastFive = Annotated[int, Field(ge=5)]


class Order(BaseModel):
    plain: AtLeastFive = 5
    optional: AtLeastFive | None = None
    items: list[AtLeastFive] = []
    values: dict[str, AtLeastFive] = {}


copy = create_model(Order.model_json_schema())


def judge(model, name, value):
    try:
        model.model_validate({name: value})
    except ValidationError:
        return "refuses"
    return "takes"


CASES = [("plain", 3), ("optional", 3), ("items", [3]), ("values", {"a": 3}), ("values", {"a": "x"})]
answers = [(judge(Order, *case), judge(copy, *case)) for case in CASES]
for (name, value), (original, copied) in zip(CASES, answers, strict=True):
    print(f"{name} {value}: original {original}, copy {copied}")
assert answers == [("refuses", "refuses")] + [("refuses", "takes")] * 4
PYTHON
