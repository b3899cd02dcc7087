"""Packs: rule sets that ship. Each folder has `policy.yaml`, `cases.jsonl`, `README.md` and often `functions.py`."""
