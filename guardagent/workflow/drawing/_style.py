"""The style sheet of a picture for dark screens; light screens and paper use the attributes of its elements."""

from __future__ import annotations

from guardagent.workflow.drawing._palettes import PALETTES

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
PAPER, LINE, LABEL = "#ffffff", "#52606d", "#333f4a"
GATED = "#0b7a4b"
_DARK_PAPER, _DARK_LINE, _DARK_LABEL, _DARK_GATED = "#0f1720", "#a3b1bf", "#d5dee7", "#4fd18f"

TEXT = """
.node .kind { font-size: 10px; letter-spacing: .03em; opacity: .82; }
.node .name { font-size: 13.5px; font-weight: 600; }
.node .id { font-size: 10.5px; font-style: italic; }
.node .tool, .node .gated { font-size: 11.5px; }
.node .gated { font-weight: 600; }
"""


def dark(scope: str = "") -> str:
    """Returns the rules for dark screens, for pictures below a selector."""
    rules = [
        f"{scope} .paper {{ fill: {_DARK_PAPER}; }}",
        f"{scope} .arrow path {{ stroke: {_DARK_LINE}; }}",
        f"{scope} .tip {{ fill: {_DARK_LINE}; }}",
        f"{scope} .arrow text {{ fill: {_DARK_LABEL}; stroke: {_DARK_PAPER}; }}",
    ]
    for kind, look in PALETTES.items():
        rules += [
            f"{scope} .{kind} .body {{ fill: {look.dark_fill}; stroke: {look.dark_stroke}; }}",
            f"{scope} .{kind} .trim {{ stroke: {look.dark_stroke}; }}",
            f"{scope} .{kind} text {{ fill: {look.dark_ink}; }}",
        ]
    rules += [f"{scope} .node .gated {{ fill: {_DARK_GATED}; }}", f"{scope} .node .lock {{ stroke: {_DARK_GATED}; }}"]
    return "\n".join(rules)


def sheet() -> str:
    """Returns the whole style sheet of a stand-alone picture."""
    return f"{TEXT}@media screen and (prefers-color-scheme: dark) {{\n{dark()}\n}}"
