"""The site's pages that lie beside docs/ in the checkout: the README is its home page."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=_from_docs((ROOT / source).read_text(encoding="utf-8"))))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Adapts a page to the site.

    Names of files become titles of their blocks, and records of JSON Lines wrap. Drawings become part of the page, so
    that their text can be selected and follows the palette. Links to files without a page become code.
    """
    markdown = re.sub(r"^(?:\*\*`(\S+)`\*\*\n)?```(\w+)$", _opening, markdown, flags=re.MULTILINE)
    markdown = re.sub(r"!\[[^\]]*\]\((\w+\.svg)\)", _drawing, markdown)
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?:guardagent|benchmarks)/[^)]*\)", r"`\1`", markdown)


def _opening(fence: re.Match[str]) -> str:
    name, kind = fence[1], fence[2]
    is_record = (name or kind).endswith("jsonl")
    classes = ".json .record" if is_record else f".{kind}"
    title = f' title="{name}"' if name else ""
    return f"``` {{{classes}{title}}}"


def _drawing(image: re.Match[str]) -> str:
    return f"<figure>\n{(ROOT / 'docs' / image[1]).read_text(encoding='utf-8')}</figure>"


def _from_docs(text: str) -> str:
    for source, page in PAGES.items():
        text = text.replace(f"]({source}", f"]({page}")
    return text.replace("](docs/", "](")
