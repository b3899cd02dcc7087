"""The operands and options of a command."""

from __future__ import annotations

import re

from guardagent.packs.shell.script import ShellCommand
from guardagent.packs.shell.words import Word

MAX_OPTIONS = 12  # before a subcommand
_EXAMPLE = re.compile(r"\.env(?:\.\w+)?\.(?:example|sample|template|dist|defaults?)$")


def operands(command: ShellCommand) -> tuple[Word, ...]:
    """The arguments that are no options; unknown ones too."""
    return tuple(word for word in command.words[1:] if not (word and word[0].startswith("-") and word[0] != "-"))


def options(command: ShellCommand) -> set[str]:
    return {value for word in command.words[1:] for value in word if value.startswith("-")}


def plain_words(command: ShellCommand) -> list[str]:
    """The arguments as strings; empty strings for unknown ones."""
    return [word[0] if word else "" for word in command.words[1:]]


def after_options(words: list[str]) -> list[list[str]]:
    """The words from each place where a subcommand can be: behind options, which may have a value of their own."""
    found = [words]
    for at, word in enumerate(words[:MAX_OPTIONS]):
        if not word.startswith(("-", "+")) and not (at and words[at - 1].startswith("-") and "=" not in words[at - 1]):
            break
        found.append(words[at + 1 :])
    return found


def copies_example(command: ShellCommand) -> bool:
    """Whether a command makes settings of a project from its example: `cp .env.example .env`."""
    found = [word[0] if len(word) == 1 else "" for word in operands(command)]
    return command.name == "cp" and len(found) == 2 and "/" not in found[1] and _EXAMPLE.search(found[0]) is not None


def value_after(command: ShellCommand, *names: str) -> tuple[Word, ...]:
    """The values of options: `-o FILE`, `--output FILE` and `--output=FILE`."""
    found: list[Word] = []
    for at, word in enumerate(command.words[1:], 1):
        if word and word[0] in names:
            found.extend(command.words[at + 1 : at + 2])
        elif word and word[0].startswith("--") and word[0].partition("=")[0] in names:
            found.append(tuple(value.partition("=")[2] for value in word))
    return tuple(found)
