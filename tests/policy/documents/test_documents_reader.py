"""Documents as they come: encodings, formats, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from guardagent.errors import InputError
from guardagent.policy.documents import read_document


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le-bom", "utf-32"])
def test_a_text_is_decoded_by_its_mark(tmp_path: Path, encoding: str) -> None:
    """Without a mark it is UTF-8."""
    data = b"\xff\xfe" + "Prüfe.".encode("utf-16-le") if encoding == "utf-16-le-bom" else "Prüfe.".encode(encoding)
    (tmp_path / "policy.txt").write_bytes(data)
    assert read_document(tmp_path / "policy.txt").sentences[0].text == "Prüfe."


def test_a_page_can_name_its_encoding(tmp_path: Path) -> None:
    """As old pages do."""
    (tmp_path / "p.html").write_bytes('<meta charset="latin1"><p>Prüfe “x”.'.encode("cp1252"))
    assert read_document(tmp_path / "p.html").sentences[0].text == "Prüfe “x”."


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("policy.md", b"", "is empty"),
        ("policy.md", b" \n", "is empty"),
        ("policy.md", b"a\nb\xff", "policy.md:2: byte 3 is not UTF-8"),
        ("policy.md", b"a\0b", "zero bytes"),
        ("policy.md", "no mark".encode("utf-16-le"), "zero bytes"),
        ("policy.md", b"PK\x03\x04...", "office document"),
        ("policy.docx", b"text", "unknown suffix of a document '.docx'"),
        ("policy.html", b"<p hidden>x</p>", "no visible text"),
        ("policy.pdf", b"%PDF-1.7 broken", "PDF cannot be read"),
        ("policy.txt", b"word " * 2_100_000, "more than 10,000,000 bytes"),
    ],
)
def test_what_is_no_document_is_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    """The message has the file and the reason."""
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_document(tmp_path / name)
    assert name in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """And so are a folder, and a name that no file system takes."""
    with pytest.raises(InputError, match="no such file"):
        read_document(tmp_path / "none.md")
    with pytest.raises(InputError, match="is a folder"):
        read_document(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_document(tmp_path / f"{'n' * 5000}.md")


@pytest.mark.parametrize(
    ("sign", "name"),
    [
        ("\u202e", "RIGHT-TO-LEFT OVERRIDE"),
        ("\u200b", "ZERO WIDTH SPACE"),
        ("\U000e0041", "TAG LATIN"),
        ("\x1b", "U+001B"),
    ],
)
def test_invisible_characters_are_reported(tmp_path: Path, sign: str, name: str) -> None:
    """With the sentence; they stay in its text."""
    (tmp_path / "p.txt").write_text(f"Ask.\n\nPay{sign} twice.", encoding="utf-8")
    document = read_document(tmp_path / "p.txt")
    assert [finding.kind for finding in document.findings] == ["characters"]
    assert name in document.findings[0].message
    assert "sentence 2" in document.findings[0].message
    assert sign in document.sentences[1].text


def test_an_endless_line_is_read_and_reported(tmp_path: Path) -> None:
    """It is one sentence."""
    (tmp_path / "p.txt").write_text("word " * 200_000, encoding="utf-8")
    document = read_document(tmp_path / "p.txt")
    assert len(document.sentences) == 1
    assert [finding.kind for finding in document.findings] == ["long"]
