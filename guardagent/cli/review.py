"""The command `review`: a person goes through a translated policy, sentence by sentence."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guardagent.cli.options import Json
from guardagent.cli.output import note, print_json, print_line, screen
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.translation.review.dossier import ReviewDossier
    from guardagent.translation.review.page import Selection


def review(
    policies: Annotated[Path, typer.Argument(help="The policy file that 'translate' wrote.")],
    *,
    by: Annotated[
        str | None, typer.Option("--by", help="The name of the reviewer (default: that of the login).")
    ] = None,
    only: Annotated[
        str, typer.Option("--only", help="The sentences to show: open (with an open question), unconfirmed or all.")
    ] = "unconfirmed",
    status: Annotated[
        bool, typer.Option("--status", help="Only list these sentences; exit 0 if everything is confirmed, else 1.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option("--page", help="Only write everything as an HTML page to this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Review a translated policy: answer its questions, and confirm it sentence by sentence.

    Every answer and confirmation is saved at once beside the policy file. Answers take effect when 'translate' runs
    again.
    """
    from guardagent.translation.review.dossier import read_dossier
    from guardagent.translation.review.page import selection

    wanted = selection(only)
    if as_json and not status:
        raise InputError("'--json' without '--status'; expected both")
    if not status and page is None:
        _hold_dialogue(policies, by, wanted)
        return
    dossier = read_dossier(policies)
    if page is not None:
        _write_page(dossier, page)
    if status:
        _print_status(dossier, wanted, as_json=as_json)


def _write_page(dossier: ReviewDossier, path: Path) -> None:
    from guardagent._support.files import save_text
    from guardagent.translation.review.page import review_page

    save_text(path, review_page(dossier))
    note(f"wrote {path}")


def _print_status(dossier: ReviewDossier, only: Selection, *, as_json: bool) -> None:
    from guardagent.translation.review.page import status_lines, status_record

    if as_json:
        print_json(status_record(dossier, only))
    else:
        for line in status_lines(dossier):
            print_line(line)
    raise typer.Exit(0 if dossier.is_complete else 1)


def _hold_dialogue(policies: Path, by: str | None, only: Selection) -> None:
    from guardagent.translation.review.dialogue import ReviewDialogue
    from guardagent.translation.review.dossier import ReviewStore

    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("a review needs a terminal; expected '--status' or '--page FILE.html' without one")
    ReviewDialogue(ReviewStore(policies, _reviewer(by)), screen()).run(only)


def _reviewer(name: str | None) -> str:
    try:
        found = (getpass.getuser() if name is None else name).strip()
    except (OSError, KeyError):  # the system does not know the user
        found = ""
    if not found or not found.isprintable():
        raise InputError(f"the reviewer's name is {found!r}; expected '--by NAME' with printable characters")
    return found
