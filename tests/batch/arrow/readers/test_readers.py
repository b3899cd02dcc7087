"""Parts that all readers share: the list of readers, documents of a file, and the index of traces."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.batch.arrow.readers import READERS, TraceIndex, TraceSpan, documents, load_reader, to_events
from guardagent.batch.arrow.schema import EVENTS
from guardagent.errors import InputError, UnknownNameError
from tests.batch.arrow.readers import JSON

OBJECTS = st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=5)


def test_the_page_of_the_formats_has_each_reader() -> None:
    """It has the columns that the reader fills, which are those of the schema, and what the format does not say."""
    page = (Path(__file__).parents[4] / "docs" / "traces.md").read_text(encoding="utf-8")
    headings = dict(re.findall(r"^\| \[`([\w-]+)`\]\(#([\w-]+)\) \|", page, re.MULTILINE))
    sections = {section.partition("\n")[0].lower().replace(" ", "-"): section for section in page.split("\n## ")}
    assert {name.replace("_", "-") for name in READERS} == headings.keys()
    for heading in headings.values():
        columns = set(re.findall(r"^\| `(\w+)` \|", sections[heading], re.MULTILINE))
        assert {"trace", "time", "tool", "args", "output", "failed"} <= columns <= set(EVENTS.names)
        assert "\nIt does not know:\n\n- " in sections[heading]


@pytest.mark.parametrize("name", list(READERS))
@given(JSON)
def test_no_value_raises(name: str, value: Any) -> None:
    """Any JSON value gives only rows with errors, in the schema."""
    batches = list(to_events(load_reader(name), [json.dumps(value)], source="x.json"))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert all(batch.schema.equals(EVENTS, check_metadata=True) for batch in batches)
    assert all(row["error"] and row["source"] == "x.json" and row["row"] == 1 for row in rows)


def test_an_unknown_format_names_those_that_exist() -> None:
    """The error is that of all plug-ins."""
    with pytest.raises(UnknownNameError, match="langsmith"):
        load_reader("langsmit")


def test_lines_that_end_are_refused() -> None:
    """They are read twice."""
    with pytest.raises(InputError, match="can be read only once"):
        list(to_events(load_reader("otel"), iter(["{}"])))


@given(OBJECTS, st.sampled_from([None, 1]))
def test_documents_of_lines_and_of_an_array(values: list[Any], indent: int | None) -> None:
    """Both give the same documents."""
    lines = io.StringIO("\n\n".join(map(json.dumps, values)))
    array = io.StringIO("\ufeff" + json.dumps(values, indent=indent))
    assert [json.loads(document) for document in documents(array)] == values
    assert [json.loads(document) for document in documents(lines) if document] == values


def test_a_document_over_several_lines() -> None:
    """It is the only one of its file."""
    assert list(map(json.loads, documents(io.StringIO(json.dumps({"a": [1]}, indent=2))))) == [{"a": [1]}]


def test_an_invalid_line_leaves_the_others() -> None:
    """The first line may be the invalid one."""
    assert list(documents(io.StringIO('{"a": \n{"b": 1}\nx\n'))) == ['{"a": \n', '{"b": 1}\n', "x\n"]


def test_an_invalid_element_ends_an_array() -> None:
    """The rest is one more document, which is invalid."""
    assert list(documents(io.StringIO('[{"a": 1}, {"b" 2}, {"c": 3}]'))) == ['{"a": 1}', '{"b" 2}, {"c": 3}]']


def test_values_over_the_limit_are_cut() -> None:
    """The next line is whole, and an array ends."""
    assert list(documents(io.StringIO("12\n1234567\n89\n"), limit=4)) == ["12\n", "1234", "89\n"]
    (cut,) = documents(io.StringIO('["' + "x" * 3_000_000 + '"]'), limit=10)
    assert len(cut) < 3_000_000


def test_the_index_of_two_files_is_that_of_both() -> None:
    """The order of the files does not matter."""
    child, parent = TraceSpan("t", "a", "b", rows=({"tool": "x"},)), TraceSpan("t", "b", conversation="c")
    for first, second in [(child, parent), (parent, child)]:
        index = TraceIndex.of([first])
        index.update(TraceIndex.of([second]))
        assert (index.keys("t"), list(index.missing())) == (("c",), [])
    assert [row["trace"] for row in TraceIndex.of([child]).missing()] == ["t"]
