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
    """Names of files become titles of their blocks; links to files without a page become code."""
    markdown = re.sub(r"^\*\*`(\S+)`\*\*\n```(\w+)$", r'```\2 title="\1"', markdown, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?:guardagent|benchmarks)/[^)]*\)", r"`\1`", markdown)


def _from_docs(text: str) -> str:
    for source, page in PAGES.items():
        text = text.replace(f"]({source}", f"]({page}")
    return text.replace("](docs/", "](")
