"""Views of calls: templates of a policy over arguments, outputs and facts."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from guardagent import load_policies
from guardagent.errors import InputError
from guardagent.policy.views import MAX_TEXT, view_for
from guardagent.types import Event

POLICY = "version: 1\npolicies: [{id: a, temporal: 'G !tool:wipe'}]\nviews:\n  t: "
DIFF = "{diff: [args.old, args.new]}"
ROWS = [{"a": 1}, {"b": "x\ny"}]


def text_of(view: str, args: Any, facts: Any = None, history: tuple[Event, ...] = ()) -> str:
    template = view_for(load_policies(text=POLICY + view), "t")
    assert template is not None
    return template.render(args, facts or {}, history).text


@pytest.mark.parametrize(
    ("view", "args", "text"),
    [
        ("'To {args.to}: {args.subject}'", {"to": "ann", "subject": "{args.to}"}, "To ann: {args.to}"),
        ("'{args.x}, {args.y.z}, {facts.a}'", {"x": None, "y": "no JSON"}, "null, (missing), (missing)"),
        ("'{args.rows[1].total} {args.rows[2]}'", {"rows": '[1, {"total": 1.50}]'}, "1.50 (missing)"),
        ("'{{literal}} {args.a.b} {args.l}'", {"a.b": Decimal("5.00"), "l": ["é", 1]}, '{literal} 5.00 ["é", 1]'),
        (DIFF, {"old": "a\nb", "new": "a\nc"}, "--- before\n+++ after\n@@ -1,2 +1,2 @@\n a\n-b\n+c"),
        (DIFF, {"old": "a\r\n", "new": "a\n"}, "(only the ends of lines differ)"),
        (DIFF, {"old": "a", "new": "a"}, "(no difference)"),
        (DIFF, {"old": "a\n" * 1001, "new": 1}, "(too long to compare: 1,001 lines before, 1 after)"),
        ("{table: args.row}", {"row": {"id": 7, "name": "Ann"}}, '"name" | "value"\n"id" | 7\n"name" | "Ann"'),
        ("{table: args.row}", {"row": ROWS}, '"a" | "b"\n1 | "(missing)"\n"(missing)" | "x\\ny"'),
        ("{table: args.row}", {}, '"value"\n"(missing)"'),
    ],
)  # fmt: skip
def test_a_view_shows_values_as_text(view: str, args: Any, text: str) -> None:
    """A placeholder in a value is no placeholder, and a path without a value is missing."""
    assert text_of(view, args) == text


@pytest.mark.parametrize(
    "text", ['{"b": 1e99999999999999999999}', "[" * 100_000, '{"b": NaN}', '{"b": 1, "b": 2}', "1" * 5000]
)
def test_a_text_that_is_not_exact_json_has_no_fields(text: str) -> None:
    assert text_of("'{args.a.b}'", {"a": text}) == "(missing)"
    assert text_of("'{args.a.b}'", {"a": '{"b": "\\ud800"}'}) == "?", "half a character cannot be sent"


def test_an_output_is_that_of_the_last_call_that_succeeded() -> None:
    history = (
        Event("shop.look", output={"total": 1}, status="ok"),
        Event("shop.look", output={"total": 2}, status="failed"),
        Event("shop.look", output={"total": 3}),
    )
    assert text_of("'{outputs.shop.look.total} {outputs.other.x}'", {}, history=history) == "1 (missing)"


@pytest.mark.parametrize(
    "args", [{"row": [{str(at): at} for at in range(900)]}, {"row": {str(at): "x" * 999 for at in range(900)}}]
)
def test_a_view_has_a_limited_size(args: Any) -> None:
    template = view_for(load_policies(text=f"{POLICY}{{table: args.row}}"), "t")
    assert template is not None
    table = template.render(args, {})
    assert (len(table.rows) <= 53, max(map(len, table.rows)) <= 12, "more" in str(table.rows[-1])) == (True,) * 3
    assert len(text_of("'{args.row}'", args)) < MAX_TEXT + 100


@pytest.mark.parametrize(
    "view",
    ["'{args.to'", "'}'", "'{to}'", "'{args.to!r}'", "'{args.a b}'", "'{outputs}'", "{diff: [args.a]}", "{}",
     "[args.a]", "{diff: [args.a, args.b], table: args.c}", "{graph: args}", "5", "{table: '{args.a}'}", "''"],
)  # fmt: skip
def test_a_view_that_cannot_be_read_is_an_error_in_its_line(view: str) -> None:
    with pytest.raises(InputError, match=r"text:4: .*(expected|known)"):
        load_policies(text=POLICY + view)


def test_a_view_is_of_a_declared_tool() -> None:
    with pytest.raises(InputError, match=r"text:5: unknown tool 't'"):
        load_policies(text=POLICY.replace("policies", "tools: [wipe]\npolicies") + "x")


def test_an_including_file_has_its_own_view(tmp_path: Path) -> None:
    (tmp_path / "in.yaml").write_text(f"{POLICY}inner\n  u: inner\n")
    (tmp_path / "out.yaml").write_text("version: 1\ninclude: in.yaml\nviews: {t: outer}\n")
    policies = load_policies(tmp_path / "out.yaml")
    views = [view_for(policies, tool) for tool in "tuv"]
    assert [view and view.render({}, {}).text for view in views] == ["outer", "inner", None]
