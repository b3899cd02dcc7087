"""Programs whose agent can call the tool `danger`, which a reader of the source can easily overlook.

They are in hidden.txt; known.txt has programs that only look like them. Each program stands after a line with its
title. A line `>> FILE` begins another file of the program; the first file is `main.py`. Each file of the program begins
with `HEAD`, except `tools.py`, which defines the tools. A main file without an agent ends with `AGENT`.
"""

from __future__ import annotations

import re
from pathlib import Path

TOOLS = """
from agents import function_tool

@function_tool
def safe(text: str) -> str:
    return text

@function_tool
def danger(text: str) -> str:
    return text
"""

HEAD = """
from agents import Agent
from tools import danger, safe
"""

AGENT = 'agent = Agent(name="a", tools=tools)'


def programs(file: str) -> list[tuple[str, str]]:
    """The titles and code of the programs in a file beside this one."""
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    return [(title, code) for title, _, code in (part.partition("\n") for part in re.split(r"(?:^|\n)# ", text)[1:])]


def write(folder: Path, code: str) -> Path:
    """Writes the files of a program; returns the main one."""
    (folder / "tools.py").write_text(TOOLS)
    for part in f"\n>> main.py\n{code}".split("\n>> ")[1:]:
        name, _, text = part.partition("\n")
        text += AGENT if name == "main.py" and "agent" not in text else ""
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + text + "\n")
    return folder / "main.py"
