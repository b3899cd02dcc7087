"""PDF documents: pages of text, made here line by line."""

from __future__ import annotations

from io import BytesIO

import pytest

from guardagent.errors import InputError
from guardagent.policy.documents import parse_document


def pdf(*pages: list[tuple[int, str]], key: str = "", mode: int = 0) -> bytes:
    """A PDF with pages of lines, each with the size of its type."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    names = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font = writer._add_object(DictionaryObject({NameObject(k): NameObject(v) for k, v in names.items()}))
    for lines in pages:
        page = writer.add_blank_page(600, 800)
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        shown = "".join(
            f"BT {mode} Tr /F1 {size} Tf 50 {760 - 30 * at} Td ({text}) Tj ET\n"
            for at, (size, text) in enumerate(lines)
        )
        stream = DecodedStreamObject()
        stream.set_data(shown.encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    if key:
        writer.encrypt(key, algorithm="RC4-128")
    file = BytesIO()
    writer.write(file)
    return file.getvalue()


def test_pages_are_read_by_the_size_of_their_type() -> None:
    """A sentence goes on on the next page; headers and footers are reported."""
    pages = [
        [(8, "Shop Inc. 2026"), (20, "Refunds"), (10, "Ask for the order id. Refunds need the confir-"), (8, "Page 1")],
        [(8, "Shop Inc. 2026"), (10, "mation of the customer who asks for them."), (8, "Page 2")],
        [(8, "Shop Inc. 2026"), (20, "Limits"), (10, "Pay at most 50 dollars."), (8, "Page 3")],
    ]
    document = parse_document(pdf(*pages), "p.pdf", "pdf")
    assert [(sentence.text, sentence.path, sentence.place) for sentence in document.sentences] == [
        ("Refunds", (), "page 1"),
        ("Ask for the order id.", ("Refunds",), "page 1"),
        ("Refunds need the confirmation of the customer who asks for them.", ("Refunds",), "page 1"),
        ("Limits", (), "page 3"),
        ("Pay at most 50 dollars.", ("Limits",), "page 3"),
    ]
    assert {finding.text for finding in document.findings} == {"Shop Inc. 2026", "Page 1", "Page 2", "Page 3"}


def test_invisible_text_is_reported() -> None:
    """It is read all the same, as the text of a scan is."""
    document = parse_document(pdf([(10, "Pay twice.")], mode=3), "p.pdf", "pdf")
    assert [finding.kind for finding in document.findings] == ["hidden"]


@pytest.mark.parametrize(
    ("data", "message"), [(pdf([]), "no text"), (pdf([(10, "x")], key="x"), "password"), (b"%PDF-", "cannot be read")]
)
def test_a_pdf_without_text_is_refused(data: bytes, message: str) -> None:
    """The message says how to go on."""
    with pytest.raises(InputError, match=message):
        parse_document(data, "p.pdf", "pdf")
