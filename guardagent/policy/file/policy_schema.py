"""Generates the JSON Schema of a policy file from the table of its keys.

Editors use the copy next to this file. After a change to the table, run:

    python -m guardagent.policy.file.policy_schema > guardagent/policy/file/policy.schema.json
"""

from __future__ import annotations

import json
import sys

from guardagent.policy.file.file_keys import POLICY_FILE
from guardagent.policy.file.policy_keys import Schema


def policy_schema() -> Schema:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "GuardAgent policy file"}
    return head | POLICY_FILE.schema


if __name__ == "__main__":
    sys.stdout.write(json.dumps(policy_schema(), indent=2) + "\n")
