"""Reads the Python files that it is told on standard input: a path per line, and a line of JSON for each answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from guardagent.errors import ContentError, GuardError, error_text
from guardagent.workflow.model.listing import GraphListing, UnreadPlace
from guardagent.workflow.python_source.source_graphs import NoWorkflowError, graphs_of_source


def main() -> None:
    """Answers until standard input ends."""
    output = sys.stdout
    sys.stdout = sys.stderr  # only answers go there
    output.write("ready\n")
    output.flush()
    for line in sys.stdin:
        output.write(json.dumps(_answer(read(Path(json.loads(line)))), default=str) + "\n")
        output.flush()


def read(path: Path) -> GraphListing:
    """Returns the workflows of a file; none is no error, and an error is an unread place."""
    try:
        return graphs_of_source(path, always_named=True)
    except NoWorkflowError:
        return GraphListing(str(path), ())
    except ContentError as error:
        line, _, reason = str(error).removeprefix(f"{path}:").partition(": ")
        return _unread_listing(path, int(line) if line.isdecimal() else 1, reason)
    except GuardError as error:
        return _unread_listing(path, 1, str(error).removeprefix(f"{path}: "))
    except Exception as error:  # noqa: BLE001 - one file of many must not end the others
        return _unread_listing(path, 1, f"its source could not be interpreted: {error_text(error)}")


def _unread_listing(path: Path, line: int, reason: str) -> GraphListing:
    return GraphListing(str(path), (), (UnreadPlace(str(path), line, reason),))


def _answer(found: GraphListing) -> dict[str, Any]:
    workflows = [
        {"name": one.name, "file": one.file, "line": one.line, "graph": one.graph.to_dict()} for one in found.workflows
    ]
    return {"workflows": workflows, "unread": [one.to_dict() for one in found.unread]}


if __name__ == "__main__":
    main()
