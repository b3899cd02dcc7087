"""A case or a trace is read from one line of JSON, and every mistake says where it is and what was expected."""

from __future__ import annotations

import hashlib
import io
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from guardagent.batch.records import (
    Case,
    FilePosition,
    InputLine,
    LineReader,
    form_of,
    open_bytes,
    read_case,
    read_trace,
)
from guardagent.errors import ContentError, InputError

CASE: dict[str, Any] = {
    "id": "c1",
    "history": [{"tool": "get_order", "args": {"order_id": 1}, "output": "Error: none"}],
    "state": {"orders": {}},
    "context": {"reason": "late"},
    "user_confirmed": None,
    "proposed": {"tool": "refund", "args": {"order_id": 1}},
    "label": 1,
    "rules": ["r"],
}
TRACE: dict[str, Any] = {"id": 7, "events": [{"tool": "a", "args": {}}], "state": {"x": 1}, "facts": {"y": 2}}


def case(**changes: Any) -> Case:
    return read_case(json.dumps({**CASE, **changes}), "cases.jsonl", 3)


def status(call: dict[str, Any], pattern: str | None = None) -> str | None:
    """The status of the single call of a trace."""
    events = {"id": "t", "events": [call]}
    return read_trace(json.dumps(events), "t", 1, re2.compile(pattern) if pattern else None).steps[0].event.status


def test_a_case_holds_what_the_format_names() -> None:
    """Context and confirmation are facts; the rest has its own place."""
    read = case()
    assert (read.id, read.label, read.rules, read.state) == ("c1", 1, ("r",), {"orders": {}})
    assert read.facts == {"user_confirmed": None, "context": {"reason": "late"}}
    assert (read.history[0].tool, read.history[0].args, read.history[0].output) == (
        "get_order",
        {"order_id": 1},
        "Error: none",
    )
    assert (read.proposed.tool, read.proposed.args, read.proposed.status) == ("refund", {"order_id": 1}, None)


@pytest.mark.parametrize("module", ["gzip", "bz2", "lzma"])
def test_a_compressed_file_is_read_as_its_lines(module: str, tmp_path: Path) -> None:
    """One that is cut is an error that names it."""
    compressed = import_module(module).compress(b'{"trace": "t", "tool": "a"}\n' * 100)
    path = tmp_path / f"log.jsonl.{ {'gzip': 'gz', 'bz2': 'bz2', 'lzma': 'xz'}[module] }"
    path.write_bytes(compressed)
    assert form_of(path) == "jsonl"
    path.write_bytes(compressed[:-9])
    with (
        pytest.raises(InputError, match=r"log.jsonl.*: cannot be decompressed: .*; expected"),
        open_bytes(path) as file,
    ):
        file.read()


def test_missing_fields_are_unknown() -> None:
    """No state is None, never an empty one; no label is None, never 0."""
    read = read_case('{"id": 1, "history": [], "proposed": {"tool": "t"}}', "c", 1)
    assert (read.state, read.label, read.rules) == (None, None, None)
    assert read.facts == {"user_confirmed": None, "context": {}}


def test_other_keys_reach_no_rule() -> None:
    """Unknown keys are ignored at every level."""
    proposed = {"tool": "refund", "args": {}, "action": "pay", "output": "x", "decision": "yes", "tags": ["t"]}
    history = [{"tool": "a", "args": {}, "action": "pay", "agent": "b", "id": "i", "facts": {}, "state": {}}]
    read = case(proposed=proposed, history=history, why="a mutation", domain="retail", gold=1)
    for event in (read.proposed, read.history[0]):
        assert (event.action, event.decision, event.tags, event.agent, event.id) == (
            None,
            None,
            frozenset(),
            None,
            None,
        )
    assert read.proposed.output is None
    assert read.facts.keys() == {"user_confirmed", "context"}


def test_a_step_has_all_that_an_event_can_mean() -> None:
    """Action, decision and tags of its own, new facts, and the state from then on."""
    event = {"action": "pay", "decision": "yes", "tags": ["risky"], "facts": {"f": 1}, "state": {"s": 2}}
    trace = read_trace(json.dumps({**TRACE, "events": [event]}), "t", 1)
    step = trace.steps[0]
    assert (step.event.tool, step.event.action, step.event.decision) == ("", "pay", "yes")
    assert step.event.tags == {"risky"}
    assert (step.facts, step.state, trace.facts, trace.state) == ({"f": 1}, {"s": 2}, {"y": 2}, {"x": 1})


def test_how_a_call_ended() -> None:
    """The status comes from `failed`, else from the pattern, else it is unknown."""
    assert status({"tool": "a", "failed": True}) == "failed"
    assert status({"tool": "a", "failed": False, "output": "Error"}, "^Error") == "ok"
    assert status({"tool": "a", "output": "Error: no"}, "^Error") == "failed"
    assert status({"tool": "a", "output": {"error": "\ud800"}}, '"error"') == "failed"
    assert status({"tool": "a", "output": None}, "^Error") == "ok"
    assert status({"tool": "a", "output": "Error"}) == "unknown"
    assert status({"tool": "a"}, "^Error") == "unknown"
    assert status({"action": "a"}) == "ok"


BAD_CASES: dict[str, dict[str, Any]] = {
    "id: is a list; expected a string": {"id": []},
    "id: is True; expected a string": {"id": True},
    "history: is null; expected a list of objects": {"history": None},
    "history[0]: is a string; expected an object": {"history": ["a"]},
    "history[0].tool: is missing; expected the name of a tool; the object has no keys": {"history": [{}]},
    "history[0].args: is a list; expected an object of arguments": {"history": [{"tool": "a", "args": []}]},
    "history[0].failed: is 1; expected true, false or null": {"history": [{"tool": "a", "failed": 1}]},
    "proposed.tool: is empty; expected the name of a tool": {"proposed": {"tool": ""}},
    "proposed.arguments: is not a key of this format; did you mean 'args'?": {
        "proposed": {"tool": "t", "arguments": {}}
    },
    "state: is a list; expected an object": {"state": []},
    "context: is a string; expected an object of facts": {"context": "x"},
    "user_confirmed: is 1; expected true, false or null": {"user_confirmed": 1},
    "label: is 2; expected 0 or 1": {"label": 2},
    "label: is True; expected 0 or 1": {"label": True},
    "rules[1]: is 3; expected a string": {"rules": ["a", 3]},
}


@pytest.mark.parametrize("says", BAD_CASES)
def test_a_wrong_case_says_where(says: str) -> None:
    """File, line, the place within the record, and what was expected."""
    with pytest.raises(ContentError) as wrong:
        case(**BAD_CASES[says])
    assert str(wrong.value) == f"cases.jsonl:3: {says}"


def test_facts_come_over_the_context_and_the_confirmation() -> None:
    """A case can state any fact; a fact of the same name wins. A history may be left out."""
    read = read_case(
        '{"id": 1, "proposed": {"tool": "t"}, "user_confirmed": false, "facts": {"user_confirmed": true, "vip": 1}}',
        "c",
        1,
    )
    assert read.facts == {"user_confirmed": True, "context": {}, "vip": 1}
    assert read.history == ()


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("fact", "facts"), ("histroy", "history"), ("States", "state"), ("userConfirmed", "user_confirmed"),
     ("user_confimred", "user_confirmed"),
     ("lable", "label"), ("rule", "rules"), ("propsed", "proposed"), ("ID", "id")],
)  # fmt: skip
def test_a_near_miss_of_a_key_is_an_error(wrong: str, meant: str) -> None:
    """Its value would be lost, even next to the key itself."""
    with pytest.raises(ContentError, match=rf"^cases.jsonl:3: {wrong}: .*did you mean '{meant}'\?"):
        case(**{wrong: None})


@pytest.mark.parametrize(
    "key", ["why", "domain", "gold", "source", "name", "type", "tools", "events", "uid", "task", "date", "status"]
)
def test_a_key_of_another_meaning_is_ignored(key: str) -> None:
    """Files of other programs have keys of their own."""
    history = [{"tool": "a", key: 1} if key != "tools" else {"tool": "a"}]
    assert case(**{key: 1, "history": history}).facts == case().facts


def test_near_misses_are_errors_at_every_level() -> None:
    """Calls, steps and traces refuse them as cases do."""
    cases: list[dict[str, Any]] = [{"history": [{"tool": "a", "ouput": 1}]}, {"proposed": {"tool": "a", "agrs": {}}}]
    for changes in cases:
        with pytest.raises(ContentError, match=r"did you mean '(output|args)'"):
            case(**changes)
    traces: list[dict[str, Any]] = [{"event": []}, {"fact": {}}, {"events": [{"tool": "a", "descision": "yes"}]}]
    for changes in traces:
        with pytest.raises(ContentError, match=r"did you mean '(events|facts|decision)'"):
            read_trace(json.dumps({**TRACE, **changes}), "t", 1)


BAD_TRACES: dict[str, dict[str, Any]] = {
    "events[0]: has no content; expected 'tool', 'action', 'decision' or 'tags'": {"events": [{"tags": []}]},
    "events[1].tags: is a string; expected a list of strings": {"events": [{"tool": "a"}, {"tool": "a", "tags": "x"}]},
    "events[0].tag: is not a key of this format; did you mean 'tags'?": {"events": [{"tool": "a", "tag": "x"}]},
    "events[0].state: is a number; expected an object": {"events": [{"tool": "a", "state": 1.5}]},
    "facts: is a list; expected an object of facts": {"facts": []},
}


@pytest.mark.parametrize("says", BAD_TRACES)
def test_a_wrong_trace_says_where(says: str) -> None:
    """The error has file, line, path and expectation."""
    with pytest.raises(ContentError) as wrong:
        read_trace(json.dumps({**TRACE, **BAD_TRACES[says]}), "t.jsonl", 9)
    assert str(wrong.value) == f"t.jsonl:9: {says}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "a list; expected a JSON object"),
        ('{"id": "a", "id": "b"}', "key 'id' appears twice"),
        ('{"id": "a", "proposed": {"tool": "a", "args": {"n": 1, "n": 2}}}', "key 'n' appears twice"),
        (
            '{"id": "a", "histroy": []}',
            "histroy: is not a key of this format; did you mean 'history'?",
        ),
        ('{"id": NaN}', "NaN is not a JSON value"),
        ("{", "not JSON at column 2"),
        ("[" * 100_000, "not acceptable JSON"),
    ],
)
def test_an_invalid_record_is_an_error(text: str, says: str) -> None:
    """A duplicate key is an error at every level."""
    with pytest.raises(ContentError, match=r"^f:1: ") as wrong:
        read_case(text, "f", 1)
    assert says in str(wrong.value)


@pytest.mark.parametrize(
    ("time", "problem"),
    [
        ("2026-01-31T12:00:00", "'2026-01-31T12:00:00' has no time zone"),
        ("yesterday", "'yesterday' is not a date and time"),
        ("1769860800", "'1769860800' is not a date and time"),
        (1_769_860_800_000, "is not a number of seconds between 1970 and 9999"),
        (True, "a value of type 'bool' is not an instant"),
        ([1], "a value of type 'list' is not an instant"),
    ],
)
def test_a_time_that_cannot_be_read_is_an_error_with_its_place(time: Any, problem: str) -> None:
    """In the history, as the time of a case, and in a trace."""
    events = [{"tool": "a"}, {"tool": "a", "time": time}]
    for read, line, place in (
        (read_case, {**CASE, "now": time}, "now: "),
        (read_case, {**CASE, "history": events}, r"history\[1\].time: "),
        (read_trace, {"id": 1, "events": events}, r"events\[1\].time: "),
    ):
        with pytest.raises(ContentError, match=f"^lines:3: {place}.*{problem}.*; expected seconds"):
            read(json.dumps(line), "lines", 3)


def test_times_keep_their_zone() -> None:
    read = case(now="2026-03-29T03:30+02:00", history=[{"tool": "a", "time": 1.5}, {"tool": "b"}])
    assert str(read.now) == "2026-03-29 03:30:00+02:00"
    assert [event.time for event in read.history] == [1.5, None]


# --- a file of any size is read in chunks of whole lines, and a place in it is found again


def reader(data: bytes, limit: int = 1000) -> LineReader:
    return LineReader(io.BufferedReader(io.BytesIO(data)), limit)


def lines_of(data: bytes, limit: int = 1000) -> list[InputLine]:
    return [line for chunk in reader(data, limit).chunks() for line in chunk.lines]


TEXTS = st.lists(st.sampled_from([b"", b" \t\r", b"a", b"bb\r", b"\xe2\x80\xa8", b"\xff"]), max_size=200).map(
    b"\n".join
)


@given(TEXTS)
def test_all_lines_come_in_their_order(data: bytes) -> None:
    """Only a line feed ends a line; blank ones count, and are passed over."""
    expected = [(at, part.removesuffix(b"\r")) for at, part in enumerate(data.split(b"\n"), 1) if part.strip()]
    assert [(line.number, line.data) for line in lines_of(data)] == expected


@given(TEXTS)
def test_from_any_mark_the_rest_is_the_same(data: bytes) -> None:
    """The mark after each chunk is that of the bytes before it, and leads to the chunks after it."""
    chunks = list(reader(data).chunks())
    for at, chunk in enumerate(chunks):
        assert chunk.end.sha256 == hashlib.sha256(data[: chunk.end.read]).hexdigest()
        again = reader(data)
        assert again.skip_to(chunk.end)
        assert list(again.chunks()) == chunks[at + 1 :]


def test_a_chunk_ends_where_it_did_when_the_file_was_shorter() -> None:
    """A log that has grown since gives the same chunks first."""
    short = b"1\n2\n3\n"
    (chunk,) = reader(short).chunks()
    assert next(reader(short + b"4\n").chunks(end=chunk.end.read)) == chunk


def test_another_beginning_is_not_skipped() -> None:
    """A changed byte, a shorter file, or a last line that has been continued."""
    (chunk,) = reader(b"one\ntwo").chunks()
    assert reader(b"one\ntwo").skip_to(chunk.end)
    for other in (b"One\ntwo", b"one\n", b"one\ntwo, three\n"):
        assert not reader(other).skip_to(chunk.end)
    assert reader(b"").skip_to(FilePosition())


def test_a_line_that_is_too_long_is_one_error() -> None:
    """It is not kept, and the lines around it are read."""
    lines = lines_of(b"a\n" + b"x" * 3_000_000 + b"\nb\n" + b"y" * 10 + b"\n" + b"z" * 11, limit=10)
    assert [(line.number, line.data) for line in lines] == [
        (1, b"a"), (2, None), (3, b"b"), (4, b"yyyyyyyyyy"), (5, None),
    ]  # fmt: skip
    with pytest.raises(ContentError, match=r"^log:2: the line is too long; expected at most 10 bytes"):
        lines[1].text("log")


def test_a_byte_order_mark_is_no_text() -> None:
    """At the beginning of the file, and nowhere else."""
    assert [line.text("f") for line in lines_of(b"\xef\xbb\xbfa\n\xef\xbb\xbfb")] == ["a", "\ufeffb"]


def test_what_is_no_text_is_located() -> None:
    """The line, and the byte in it."""
    with pytest.raises(ContentError, match=r"^f:2: byte 1 is not UTF-8"):
        lines_of(b"a\nb\xff\n")[1].text("f")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """One that is missing, and a folder."""
    for path, says in ((tmp_path / "none", "no such file"), (tmp_path, "is a folder; expected a file")):
        with pytest.raises(InputError, match=says), open_bytes(path):
            pass
