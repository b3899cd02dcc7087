"""A file of any size is read in chunks of whole lines, and a place in it is found again."""

import hashlib
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.batch.records import FilePosition, InputLine, LineReader, open_bytes
from guardagent.errors import ContentError, InputError


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
