"""The pages of docs/commands say what the commands say."""

from pathlib import Path

from guardagent.cli.reference import pages

FOLDER = Path(__file__).parents[2] / "docs" / "commands"


def test_there_is_a_page_for_each_command_and_it_is_current() -> None:
    """`make docs` writes the pages; a changed option that is not in them shows here."""
    assert {file.name: file.read_text(encoding="utf-8") for file in FOLDER.iterdir()} == pages()
