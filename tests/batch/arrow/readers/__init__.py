"""Tests of the readers: rows of documents, and documents with one change anywhere."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from guardagent.batch.arrow.readers import TraceIndex, load_reader, read_spans, to_events, to_rows

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def event_rows(name: str, *documents: Any, partial: bool = True) -> list[dict[str, Any]]:
    """Returns the rows of documents, without the columns that are null and those of the place."""
    lines = [document if isinstance(document, str) else json.dumps(document) for document in documents]
    rows = [row for batch in to_events(load_reader(name), lines, partial=partial) for row in batch.to_pylist()]
    return [{key: value for key, value in row.items() if value is not None and key != "row"} for row in rows]


def error_of(name: str, *documents: Any) -> str:
    """Returns the error of the only row."""
    (row,) = event_rows(name, *documents)
    return str(row["error"])


def changed(document: Any) -> st.SearchStrategy[Any]:
    """Copies of a document in which one value is another one, is missing, or comes twice in its list."""
    places = list(_places(document))
    return st.builds(
        _change, st.just(document), st.sampled_from(places), st.sampled_from(["set", "remove", "repeat"]), JSON
    )


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _places(item, (*path, key))


def _change(document: Any, path: tuple[Any, ...], how: str, value: Any) -> Any:
    if not path:
        return value
    change = copy.deepcopy(document)
    target = change
    for key in path[:-1]:
        target = target[key]
    if how == "remove":
        del target[path[-1]]
    elif how == "repeat" and isinstance(target, list):
        target.append(target[path[-1]])
    else:
        target[path[-1]] = value
    return change


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yields every object in a value."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(item)


def assert_no_call_is_lost(name: str, document: Any, calls: list[Any]) -> None:
    """Each named call is an event, unless there is an error row."""
    reader, line = load_reader(name), json.dumps(document)
    rows = list(to_rows(reader, line, TraceIndex.of(read_spans(reader, line))))
    assert all(type(json.loads(row["args"])) is dict for row in rows if "args" in row)
    if not any("error" in row for row in rows):
        assert len([row for row in rows if row["tool"] != "answer"]) >= len(calls)
