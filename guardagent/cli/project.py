"""The commands `init` and `doctor`, and the starter project: the files in `_starter/`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from guardagent.cli.options import Json, print_json, print_line, print_result, screen
from guardagent.cli.render import show_findings
from guardagent.errors import InputError


def init(
    folder: Annotated[
        Path | None, typer.Argument(help="The folder to create; without it, the project of this folder is guarded.")
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """Create a starter project, or guard the project of this folder.

    A starter project has one toolbox function, one agent, a policy file, and runs to try. In a project, this finds its
    coding agents and frameworks, writes a policy, and shows what it would have said to the last sessions. The command
    that it ends with installs the hooks, on trial at first. It overwrites nothing.
    """
    if folder is None:
        _init_project(as_json=as_json)
        return

    advice = create(folder)
    files = sorted(str(path) for path in folder.rglob("*") if path.is_file())
    print_result({"folder": str(folder), "files": files}, advice, as_json=as_json)


def _init_project(*, as_json: bool) -> None:
    from guardagent.hooks.installation import host_named, set_up

    setup = set_up(Path.cwd(), Path.home())
    if as_json:
        rows = [{"call": call, "why": why} for call, why in setup.warnings]
        names = {
            "policy": str(setup.policy),
            "hosts": list(setup.hosts),
            "frameworks": setup.frameworks,
        }
        print_json({**names, "transcripts": setup.transcripts, "warnings": rows})
        return
    for host, sign in setup.hosts.items():
        print_line(f"found {host_named(host).title}: {sign}")
    print_line(f"{setup.policy}: written; commit it for your team")
    if setup.transcripts:
        print_line(f"in the last {setup.transcripts} sessions it would have objected {len(setup.warnings)} times:")
    for call, why in setup.warnings[:20]:
        print_line(f"  {call[:120]!r}: {why}")
    for framework in setup.frameworks:
        print_line(f"this project uses {framework}: attach the guard there, as the documentation of this host says")
    if setup.hosts:
        print_line("the next command guards this project's agents; at first, its rules only warn:")
        print_line(f"guardagent hook install --trial {' '.join(setup.hosts)}")


def doctor(*, as_json: Json = False) -> None:
    """Check which sandbox protections and which installed hooks of coding agents work on this machine.

    Says how to add missing ones, and exits with 1 if one is missing.
    """
    from guardagent.hooks.installation import hooks_of, installed, next_step
    from guardagent.sandbox.doctor import examine, to_dict

    findings, hooks = examine(), installed()
    here = Path.cwd()
    unguarded = f"not guarded; next: {next_step(here)}" if hooks and not hooks_of(here, hooks) else ""
    missing = unguarded or any(finding.problem for finding in findings) or any(hook.problems for hook in hooks)
    if as_json:
        problems = {hook.lock.settings: list(hook.problems) for hook in hooks}
        problems |= {str(here): [unguarded]} if unguarded else {}
        print_json({**to_dict(findings), **({"hooks": problems} if hooks else {})})
    else:
        show_findings(findings, screen())
        if unguarded:
            print_line(f"missing  hook    this folder: {unguarded}")
        for installed_hook in hooks:
            works = "broken" if installed_hook.problems else "works  "
            print_line(
                f"{works}  hook    {installed_hook.lock.settings}  {'; '.join(installed_hook.problems)}".rstrip()
            )
            for warning in installed_hook.warnings:
                print_line(f"warning  hook    {warning}")
    raise typer.Exit(1 if missing else 0)


# --- the starter project


_FILES = Path(__file__).parent / "_starter"


def create(folder: Path) -> str:
    """Copies the starter project into a new or empty folder.

    Returns:
        The next steps as text.

    Raises:
        InputError: the folder is not empty, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: already exists; expected a new or empty folder")
    try:
        shutil.copytree(_FILES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error}") from None
    return (folder / "README.md").read_text(encoding="utf-8").replace("my-guard", str(folder))
