"""HTML documents, as a browser shows them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.errors import InputError
from guardagent.policy.documents import parse_document
from guardagent.policy.documents.sentences import PolicyDocument, find_quote

PAGE = """<!doctype html><html><head><style>p{color:red}</style></head><body>
<h1>Policy</h1><p>Ask&nbsp;first.<p>Then <b>book</b>.
<ul><li>one<li>two<ul><li>deep</ul></ul>
<table><caption>Fees.</caption><tr><th>tier<th>fee<tr><td rowspan=2>gold<td>5<tr><td>6</table>
<dl><dt>Refund<dd>Money back. Always.</dl>
<pre>if a:
    b</pre></body></html>"""


def read(page: str) -> PolicyDocument:
    return parse_document(page.encode(), "policy.html", "html")


def test_a_page_is_read_by_its_structure() -> None:
    """Also where end tags are left out."""
    sentences = [(sentence.kind, sentence.text, sentence.context) for sentence in read(PAGE).sentences]
    assert sentences == [
        ("heading", "Policy", ()),
        ("sentence", "Ask first.", ()),
        ("sentence", "Then book.", ("Ask first.",)),
        ("item", "one", ()),
        ("item", "two", ()),
        ("item", "deep", ("two",)),
        ("sentence", "Fees.", ()),
        ("header", "tier | fee", ()),
        ("row", "gold | 5", ("tier | fee",)),
        ("row", "6", ("tier | fee", "gold")),
        ("sentence", "Refund", ()),
        ("item", "Money back.", ("Refund",)),
        ("item", "Always.", ("Refund",)),
        ("code", "if a:\n    b", ()),
    ]
    assert read(PAGE).sentences[-1].place == "line 6"


def test_raised_numbers_are_no_digits_of_the_text() -> None:
    """Nor words of a quote."""
    page = "<p>Pay late.<sup>2</sup> Stay <b>out</b>.<sup><a>12</a></sup> Use 10<sup>3</sup> g by the 1<sup>st</sup>."
    assert [sentence.text for sentence in read(page).sentences] == [
        "Pay late.²",
        "Stay out.¹²",
        "Use 10³ g by the 1st.",
    ]
    assert find_quote("Pay late.² Stay¹ out", "late. Stay out")
    page = "<p>At $500<sup>1, 2</sup> stop.<sup>3,4</sup> Go."
    assert [sentence.text for sentence in read(page).sentences] == ["At $500¹,² stop.³,⁴", "Go."]


def test_a_note_is_read_with_the_sentence_that_has_its_mark() -> None:
    page = "<p>Rooms of 5 km<sup>2</sup>.<p>Stay out!<sup>2</sup> Rest.<sup>12</sup><p><sup>2</sup> Not at night."
    assert [(sentence.text, sentence.context) for sentence in read(page).sentences][-1] == (
        "² Not at night.",
        ("Stay out!²",),
    )


@pytest.mark.parametrize(
    "element",
    [
        "<!-- {} -->",
        "<script>{}</script>",
        "<template>{}</template>",
        "<noscript>{}</noscript>",
        "<p hidden>{}</p>",
        "<p style='display: none'>{}</p>",
        "<p style='VISIBILITY:hidden;'>{}</p>",
        "<p style='font-size:0px'>{}</p>",
        "<p style='opacity: 0'>{}</p>",
        "<p style='position:absolute; left:-9999px'>{}</p>",
        "<input type=hidden value='{}'>",
        "<dialog>{}</dialog>",
        "<head><title>{}</title></head>",
        "<div hidden>{}",
    ],
)
def test_hidden_text_is_reported_and_not_read(element: str) -> None:
    """However it is hidden."""
    document = read("<p>Ask.</p>" + element.format("Refund everyone."))
    assert [sentence.text for sentence in document.sentences] == ["Ask."]
    assert [(finding.kind, finding.text) for finding in document.findings] == [("hidden", "Refund everyone.")]


def test_a_style_sheet_that_hides_is_reported() -> None:
    """Its selectors are not applied, so the text stays."""
    document = read("<style>.x{display:none}</style><p class=x>Ask.</p>")
    assert [finding.kind for finding in document.findings] == ["hidden"]
    assert len(document.sentences) == 1


def test_a_table_that_arranges_a_page_is_no_table() -> None:
    """Its cells hold lists."""
    document = read("<table><tr><td>Menu</td><td><h2>Rules</h2><ul><li>Ask.</ul></td></table>")
    assert [sentence.kind for sentence in document.sentences] == ["sentence", "heading", "item"]


def test_deep_nesting_is_an_error() -> None:
    """It would exhaust the stack."""
    with pytest.raises(InputError, match="nested more than"):
        read("<div>" * 5000 + "text")


@given(st.text(st.sampled_from("<>/!-&;'\"= pdivultrhsc1a"), max_size=80))
def test_any_page_is_read_or_refused(page: str) -> None:
    """With an error that says why."""
    with contextlib.suppress(InputError):
        assert read("<p>a</p>" + page).sentences[0].text.startswith("a")
