"""The commands of a makefile that a script writes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from guardagent.packs.shell.arguments import plain_words, value_after
from guardagent.packs.shell.script import ShellCommand

MAKES = ("make", "gmake")
_NAMES = ("Makefile", "makefile", "GNUmakefile")
_DEFINITION = re.compile(r"^(?:export +)?(\w+) *[:?]?:?= *(.*)$", re.MULTILINE)
_RECIPE = re.compile(r"^\t(.*)$|^[^\s#=:][^=:\n;]*:[^=;\n]*;(.*)$", re.MULTILINE)
_VARIABLE = re.compile(r"\$(?:\((\w+)\)|\{(\w+)\}|([@<^*+?%]))")
_PROGRAMS = {"CC": "cc", "CXX": "c++", "AR": "ar", "RM": "rm -f", "MAKE": "make", "CFLAGS": "", "LDFLAGS": ""}


def makefiles(command: ShellCommand) -> Iterator[str]:
    """The makefiles that `make` may read."""
    named = [value for word in value_after(command, "-f", "--file", "--makefile") for value in word]
    named += [word[2:] for word in plain_words(command) if word.startswith("-f") and word != "-f"]
    folders = [value for word in value_after(command, "-C", "--directory") for value in word]
    yield from (posixpath.join(folder, name) for folder in folders or (".",) for name in named or _NAMES)


def recipes(text: str) -> str:
    """The recipes of a makefile as a script."""
    defined = {**_PROGRAMS, **dict(_DEFINITION.findall(text))}
    lines = "\n".join(first or second for first, second in _RECIPE.findall(re.sub(r"\\\n\s*", " ", text)))
    for _ in range(3):  # variables that are made of others
        lines = re.sub(r"(?<!\$)" + _VARIABLE.pattern, lambda found: _value(found, defined), lines)
    return re.sub(r"^\s*[@+-]+\s*", "", lines, flags=re.MULTILINE).replace("$$", "$")


def _value(found: re.Match[str], defined: dict[str, str]) -> str:
    name = found[1] or found[2]
    return "target" if name is None else defined.get(name, f"$${{{name}}}")
