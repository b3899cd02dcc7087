"""The page is one well-formed, self-contained and accessible file, in which names are never markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from guardagent._terminal import single_line
from guardagent.workflow.analysis.report import GraphFinding, Report
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.reports.html import render
from tests.workflow.samples import HOSTILE, any_graph, hostile_report, support, support_report

_VOID = {"meta", "link", "br", "hr", "img", "input"}


@dataclass
class Element:
    """An element of a page."""

    tag: str
    attributes: dict[str, str]
    parts: list[Element | str] = field(default_factory=list)

    @property
    def children(self) -> list[Element]:
        """The elements in it."""
        return [part for part in self.parts if isinstance(part, Element)]

    @property
    def text(self) -> str:
        """The text of the element itself."""
        return "".join(part for part in self.parts if isinstance(part, str))

    def all(self) -> Iterator[Element]:
        """The element and all its descendants."""
        yield self
        for child in self.children:
            yield from child.all()

    def words(self) -> str:
        """The text of the element and its descendants."""
        pieces = [part if isinstance(part, str) else f" {part.words()} " for part in self.parts]
        return " ".join("".join(pieces).split())


class StrictPageParser(HTMLParser):
    """Parses a page strictly."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice in <{tag}>"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].parts.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)


def read(report: Report) -> list[Element]:
    """All elements of a report's page."""
    reader = StrictPageParser()
    reader.feed(render(report))
    reader.close()
    assert reader.open == [reader.root]
    return list(reader.root.all())[1:]


@pytest.fixture(scope="module", params=["support", "hostile"])
def page(request: pytest.FixtureRequest) -> list[Element]:
    """The pages of two reports."""
    return read(support_report() if request.param == "support" else hostile_report())


def test_ids_are_unique_and_references_lead_to_them(page: list[Element]) -> None:
    """This holds for labels, titles, links and steps."""
    ids = [element.attributes["id"] for element in page if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    for node in page:
        for name in ("for", "aria-labelledby", "data-node", "data-arrows"):
            assert set(node.attributes.get(name, "").split()) <= set(ids)
        if node.tag == "a":
            assert node.attributes["href"].removeprefix("#") in ids


def test_it_asks_for_nothing_from_outside(page: list[Element]) -> None:
    """The page has no address, and a policy that forbids requests."""
    for element in page:
        assert not set(element.attributes) & {"src", "srcset", "action", "style", "xlink:href", "background", "ping"}
        assert element.attributes.get("href", "#")[0] == "#" or element.attributes["href"] == "data:,"
        assert not any(name.startswith("on") for name in element.attributes)
    style = next(node.text for node in page if node.tag == "style")
    assert set(re.findall(r"url\(([^)]*)\)", style)) == {"#tip-walked"}
    assert "@import" not in style
    assert "http" not in style
    policy = next(node.attributes["content"] for node in page if "http-equiv" in node.attributes)
    assert policy.startswith("default-src 'none';")


def test_the_script_is_ours_alone_and_writes_no_markup(page: list[Element]) -> None:
    """The script is the same for every report."""
    (script,) = [element.text for element in page if element.tag == "script"]
    assert script == next(element.text for element in read(support_report()) if element.tag == "script")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|fetch|XMLHttp|import\(", script)


def test_names_are_text_and_nothing_else() -> None:
    """Names add no elements, no attributes and no direction marks."""
    elements = read(hostile_report())
    assert {"b", "img"} & {element.tag for element in elements} <= {"b"}
    assert not any({"onerror", "onmouseover"} & set(element.attributes) for element in elements)
    words = elements[0].words()
    assert all(single_line(name) in words for name in HOSTILE)
    assert all(char.isprintable() or char == "\n" for char in render(hostile_report()))


def test_everything_can_be_used_without_a_mouse_and_without_seeing(page: list[Element]) -> None:
    """Buttons are buttons with a name, fields have a label, headings do not skip, and what changes is announced."""
    by_tag: dict[str, list[Element]] = {}
    for element in page:
        by_tag.setdefault(element.tag, []).append(element)
    assert all(button.words() or button.attributes.get("aria-label") for button in by_tag["button"])
    assert all(button.attributes.get("type") == "button" for button in by_tag["button"])
    labelled = {label.attributes.get("for") for label in by_tag["label"]}
    assert all(select.attributes["id"] in labelled for select in by_tag["select"])
    levels = [int(node.tag[1]) for node in page if re.fullmatch(r"h[1-6]", node.tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    announced = [node.attributes["id"] for node in page if node.attributes.get("role") == "status"]
    assert announced == ["node-facts", "status"]
    assert by_tag["html"][0].attributes["lang"] == "en"
    drawings = [drawing.attributes for drawing in by_tag["svg"]]
    assert all(drawing.get("aria-label") or drawing.get("aria-hidden") for drawing in drawings)


def test_the_table_says_what_the_picture_shows() -> None:
    """Each node with its kind, its tools, and where it leads to under which condition."""
    report = support_report(support(file="agents/support.py", line=7))
    rows = {row.attributes.get("id"): row.words() for row in read(report) if row.tag == "tr"}
    assert rows["row-n2"] == "classify llm route agents/support.py:7"
    assert rows["row-n5"] == "refund tool refund needs approval , notify __end__"
    assert rows["row-n7"] == "team second level support subgraph · leads anywhere __end__"


def test_each_finding_and_rule_has_a_card_with_its_way() -> None:
    """Unsuppressed findings come first; a suppressed one has no walk."""
    elements = read(support_report())
    cards = [element for element in elements if element.tag == "article"]
    assert [card.attributes["class"].split()[1] for card in cards] == [
        "error", "warning", "note", "suppressed", "violated", "violated", "undecidable", "proved"
    ]  # fmt: skip
    assert "Suppressed: the platform stops it" in cards[3].words()
    assert "postponed forever by a cycle" in cards[5].words()
    walks = [element.attributes["data-walk"] for element in elements if "data-walk" in element.attributes]
    options = [element.attributes["value"] for element in elements if element.tag == "option"]
    assert walks == options == ["0", "1", "2", "4", "5"]


def test_steps_name_the_arrows_that_lead_to_them() -> None:
    """Steps have the ids of arrows in the picture."""
    elements = read(support_report())
    path = next(element for element in elements if element.attributes.get("id") == "path-5")
    steps = [(child.attributes["data-node"], child.attributes["data-arrows"]) for child in path.children]
    assert steps == [("n0", ""), ("n2", "e0"), ("n3", "e1"), ("n4", "e2"), ("n8", "e6"), ("n4", "e7")]
    assert path.attributes["data-turn"] == "3"


def test_nodes_with_findings_are_marked_in_the_picture() -> None:
    """A mark has a sign and a colour; a suppressed finding has another mark."""
    marked = {
        element.attributes["id"]: element.attributes["class"]
        for element in read(support_report())
        if "node" in _classes(element)
    }
    assert marked["n5"] == "node tool error"
    assert marked["n9"] == "node llm warning"
    assert marked["n8"] == "node passthrough suppressed"
    assert marked["n4"] == "node tool"


def test_of_a_graph_that_is_too_large_the_part_is_drawn_that_matters() -> None:
    """The page also says that it shows a part."""
    graph: Graph = any_graph(2_000, 0.3, 5)
    far = graph.nodes[-1].id
    findings = (GraphFinding("dead_ends", far, "error", "x", (graph.entry_id, far)),)
    elements = read(replace(support_report(graph), findings=findings, rules=()))
    assert "this shows 120 of its 2,002 nodes" in elements[0].words()
    assert any(element.words().startswith(far) for element in elements if element.tag == "tr")


def _classes(element: Element) -> list[str]:
    return element.attributes.get("class", "").split() if "id" in element.attributes else []
