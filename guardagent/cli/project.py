"""The commands `init`, `doctor` and `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from guardagent.cli.options import Json
from guardagent.cli.output import print_json, print_line, screen


def init(
    folder: Annotated[
        Path | None, typer.Argument(help="The folder to create; without it, the project of this folder is guarded.")
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """Create a starter project, or guard the project of this folder.

    A starter project has one toolbox function, one agent, a policy file, and runs to try. In a project, this finds its
    coding agents and frameworks, writes a policy whose violations only warn, and shows what it would have said to the
    last sessions. It overwrites nothing.
    """
    if folder is None:
        _init_project(as_json=as_json)
        return
    from guardagent.cli.starter import create

    advice = create(folder)
    if as_json:
        files = sorted(str(path) for path in folder.rglob("*") if path.is_file())
        print_json({"folder": str(folder), "files": files})
    else:
        print_line(advice)


def _init_project(*, as_json: bool) -> None:
    from guardagent.hooks.installation import set_up

    found = set_up(Path.cwd(), Path.home())
    if as_json:
        rows = [{"call": call, "why": why} for call, why in found.warnings]
        names = {"policy": str(found.policy), "hosts": found.hosts, "frameworks": found.frameworks}
        print_json({**names, "transcripts": found.transcripts, "warnings": rows})
        return
    print_line(f"{found.policy}: written; its rules only warn")
    for host in found.hosts:
        print_line(f"next: guardagent hook install {host} --policies {found.policy.name}")
    for framework in found.frameworks:
        print_line(f"next: attach the guard in {framework}; docs/hosts.md has the line")
    if found.transcripts:
        print_line(f"in the last {found.transcripts} sessions it would have warned {len(found.warnings)} times:")
    for call, why in found.warnings[:20]:
        print_line(f"  {call[:120]!r}: {why}")


def doctor(*, as_json: Json = False) -> None:
    """Check which sandbox protections and which installed hooks of coding agents work on this machine.

    Says how to add missing ones, and exits with 1 if one is missing.
    """
    from guardagent.hooks.installation import installed
    from guardagent.sandbox.doctor import examine, to_dict

    findings, hooks = examine(), installed()
    missing = any(finding.problem for finding in findings) or any(one.problems for one in hooks)
    if as_json:
        problems = {one.lock.settings: list(one.problems) for one in hooks}
        print_json({**to_dict(findings), **({"hooks": problems} if hooks else {})})
    else:
        from guardagent.cli.render import show_findings

        show_findings(findings, screen())
        for one in hooks:
            works = "broken" if one.problems else "works  "
            print_line(f"{works}  hook    {one.lock.settings}  {'; '.join(one.problems)}".rstrip())
    raise typer.Exit(1 if missing else 0)


def demo() -> None:
    """Show a two-minute tour, offline: guards of a health-records, a web and a Q&A agent."""
    from guardagent.cli.demo import tour

    tour(screen())
