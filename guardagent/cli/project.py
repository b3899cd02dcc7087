"""The commands `init`, `doctor` and `ci`, and the starter project: the files in `_starter/`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from guardagent.cli import options
from guardagent.cli.options import Json, print_json, print_line, print_result, screen
from guardagent.cli.render import show_findings
from guardagent.errors import InputError, UnknownNameError

StandardName = Annotated[
    str | None, typer.Option("--standard", metavar="NAME", help="A standard: aisvs, asi or ai_act.")
]
StandardSettings = Annotated[
    Path | None, typer.Option("--settings", metavar="FILE", help="The settings file of a server, for '--standard'.")
]


def init(
    folder: Annotated[
        Path | None, typer.Argument(help="The folder to create; without it, the project of this folder is guarded.")
    ] = None,
    *,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Rules that exist, such as .claude/settings.json: they become the policy."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a starter project, or guard the project of this folder.

    A starter project has one toolbox function, one agent, a policy file, and runs to try. In a project, this finds its
    coding agents and frameworks, writes a policy, and shows what it would have said to the last sessions. The command
    that it ends with installs the hooks, on trial at first. It overwrites nothing.
    """
    if source is not None:
        _init_from(source, folder, as_json=as_json)
    if folder is None:
        _init_project(as_json=as_json)
        return

    advice = create(folder)
    files = sorted(str(path) for path in folder.rglob("*") if path.is_file())
    print_result({"folder": str(folder), "files": files}, advice, as_json=as_json)


def _init_from(source: Path, folder: Path | None, *, as_json: bool) -> NoReturn:
    from guardagent.cli.translate import print_import
    from guardagent.hooks.installation import FILE
    from guardagent.translation.imports import format_of, import_rules
    from guardagent.translation.imports.report import ImportOptions

    path = (folder or Path.cwd()) / FILE
    if path.exists():
        raise InputError(f"{path}: is there already, and stays as it is; 'guardagent import' writes to another file")
    options = ImportOptions(project=str(path.resolve().parent))
    print_import(import_rules(format_of(source), source, options), path, as_json=as_json)


def _init_project(*, as_json: bool) -> None:
    from guardagent.hooks.installation import host_named, set_up

    setup = set_up(Path.cwd(), Path.home())
    if as_json:
        rows = [{"call": call, "why": why} for call, why in setup.warnings]
        setup_row = {"policy": str(setup.policy), "hosts": list(setup.hosts), "frameworks": setup.frameworks}
        print_json({**setup_row, "transcripts": setup.transcripts, "warnings": rows})
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


def doctor(
    *,
    standard: StandardName = None,
    policies: options.OptionalPolicyFiles = None,
    settings: StandardSettings = None,
    as_json: Json = False,
) -> None:
    """Check which sandbox protections and which installed hooks of coding agents work on this machine.

    Says how to add missing ones, and exits with 1 if one is missing. With '--standard', it compares the policies and
    the settings of a server with a standard instead, and exits with 1 if something is switched off.
    """
    if standard is not None:
        _compare(standard, [Path(file) for file in policies or ()], settings, as_json=as_json)
        return
    if policies or settings is not None:
        raise InputError("'--policies' and '--settings' are for '--standard'; expected it, too")
    from guardagent.hooks.installation import hooks_of, installed, next_step
    from guardagent.sandbox.doctor import examine, to_dict

    findings, hooks = examine(), installed(Path.cwd())
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


def _compare(standard: str, files: list[Path], settings: Path | None, *, as_json: bool) -> None:
    from guardagent.policy.load import read_policy_files
    from guardagent.server.settings import read_server_settings
    from guardagent.server.standards import compared

    read = None if settings is None else read_server_settings(settings)
    if not files and read is not None:
        files = [file for policy in read.policies.values() for file in policy.files]
    results = compared(standard, read_policy_files(files) if files else None, read)
    if as_json:
        print_json({"standard": standard, "requirements": [result.json for result in results]})
    else:
        for result in results:
            what = result.requirement
            more = f"off: {result.missing}" if result.missing else what.note
            print_line(f"{what.id:10} {'off' if result.missing else what.status:8} {what.title}; {more}".rstrip("; "))
    raise typer.Exit(1 if any(result.missing for result in results) else 0)


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
        readme = folder / "README.md"
        text = readme.read_text(encoding="utf-8").replace("my-guard", str(folder))
        readme.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error}") from None
    return text


# --- all checks of a project, in one run


def ci(
    *,
    fail_on: Annotated[
        str | None,
        typer.Option("--fail-on", help="The least severity that fails: error (the default), warning or note."),
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", help="The last policy: a Git revision, or a policy file.")
    ] = None,
    sarif: Annotated[Path | None, typer.Option("--sarif", help="Also write a SARIF file, for code scanning.")] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write a JUnit file, for test reports.")] = None,
    output: Annotated[
        str, typer.Option("--format", help="text, or github for annotations of a pull request.")
    ] = "text",
    as_json: Json = False,
) -> None:
    """Lint, test, replay and verify what pyproject.toml names under [tool.guardagent].

    The policies are linted, their cases judged and the coverage of their rules found; logs are replayed against the
    last policy, and workflows verified. Exits with 1 if a finding fails, and with 2 if something could not be read.
    """
    from guardagent._support.files import save_text
    from guardagent.testing import ci as checks

    if output not in ("text", "github"):
        raise UnknownNameError("format", output, ("text", "github"))
    changed: dict[str, Any] = {"against": against, "fail_on": fail_on}
    options = {name: value for name, value in changed.items() if value is not None}
    report = checks.run_checks(replace(checks.read_settings(Path("pyproject.toml")), **options))
    for path, render in ((sarif, checks.sarif), (junit, checks.junit)):
        if path is not None:
            save_text(path, render(report))
    if as_json:
        print_line(checks.as_json(report))
    else:
        annotations = [checks.github(report)] if output == "github" and report.findings else []
        for line in (*annotations, *checks.text(report)):
            print_line(line)
    raise typer.Exit(report.status)
