"""The examples of the README and of docs/ are run unchanged, each page in its own folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs import ehr_input, ehr_log

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIAL = ROOT / "docs" / "tutorial.md"  # test_tutorial.py runs it
BLOCK = re.compile(
    r"(?:^\*\*`(?P<file>\S+)`\*\*\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```",  # a line **`name`** makes it a file
    re.MULTILINE | re.DOTALL,
)
QUICK = ("README.md", "guards.md", "install.md", "language.md", "packs.md", "provenance.md", "traces.md", "words.md")
SKIPPED = ("make ", "guardagent bench ")  # they run this suite, or need a data set


def expected_output(text: str) -> list[str]:
    """Returns the lines that a block prints by its `#> ` lines; one that ends in a backslash goes on in the next."""
    return [line[3:] for line in re.sub(r" \\\n#> +", " ", text).splitlines() if line.startswith("#> ")]


def run_python(text: str, folder: Path) -> None:
    """Runs a block, and compares what it prints with what it shows."""
    ran = subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == expected_output(text)


def run_console(text: str, folder: Path) -> None:
    """Runs the lines that begin with `$ `; each must succeed, or exit with a verdict."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in re.findall(r"^\$ (.*?)(?:  +#.*)?$", text.replace("\\\n", ""), re.MULTILINE):
        if line.startswith(SKIPPED):
            continue
        environment = {**os.environ, "PATH": path, "XDG_STATE_HOME": str(folder / "state")}
        ran = subprocess.run(["/bin/sh", "-c", line], cwd=folder, env=environment, capture_output=True, check=False)
        assert ran.returncode in (0, 1), (line, ran.stderr)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[] if page.name in QUICK else [pytest.mark.slow])
        for page in PAGES
        if page != TUTORIAL
    ],
)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    """Files are written, Python prints the output that the page shows, and commands succeed."""
    (tmp_path / "input.txt").write_text(ehr_input("nursing"))
    (tmp_path / "log.txt").write_text(ehr_log())
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["file"]:
            path = tmp_path / block["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["text"])
        elif block["kind"] == "python":
            run_python(block["text"], tmp_path)
        elif block["kind"] == "console":
            run_console(block["text"], tmp_path)


@pytest.mark.parametrize("page", [PAGES[0], *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name)
def test_examples_fit_the_column_of_the_site(page: Path) -> None:
    """They are fenced, and have 74 columns at most; only JSON Lines have more, where a line is a record."""
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        if not (block["file"] or block["kind"]).endswith("jsonl"):
            assert [line for line in block["text"].splitlines() if len(line) > 74] == []
    assert not re.search(r"^(?![-* ]|\d+\.).*\n\n    \w", BLOCK.sub("", text), re.MULTILINE)


@pytest.mark.parametrize("page", [PAGES[0], *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A relative link names an existing file."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_every_toolbox_function_is_on_its_page() -> None:
    """The table in docs/toolbox.md has the functions that `toolbox list` prints."""
    from guardagent import Toolbox

    text = (ROOT / "docs" / "toolbox.md").read_text(encoding="utf-8")
    assert [name for name in Toolbox.load() if f"`{name}(" not in text] == []


def test_every_page_of_a_host_says_how_a_run_ends() -> None:
    """So does the table of hosts, in the same sense."""
    text = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
    pages = dict(re.findall(r"^\| ([^|]+) \| .*\(hosts/(\S+)\) \|$", text, re.MULTILINE))
    table = text.partition("| host | conversation | ended by |")[2].partition("\n\n")[0]
    ended_by = dict(re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|", table, re.MULTILINE))
    assert list(ended_by) == list(pages)
    for host, page in pages.items():
        shown = (ROOT / "docs" / "hosts" / page).read_text(encoding="utf-8")
        section = re.search(r"^## How a run ends$(.*?)^## ", shown, re.MULTILINE | re.DOTALL)
        assert section, page
        assert ("guard.end(" in section[1], "the adapter ends" in section[1]) == (True, "adapter" in ended_by[host])
