"""The commands `pack list`, `pack show` and `pack add`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from guardagent.cli.options import Json
from guardagent.cli.output import print_json, print_line

PackName = Annotated[str, typer.Argument(metavar="NAME", help="The pack, such as shell.")]
Target = Annotated[Path, typer.Option("-p", "--policies", help="The policy file to change; created if missing.")]
Trial = Annotated[bool, typer.Option("--trial", help="A violation of its rules only warns.")]


def list_packs(*, as_json: Json = False) -> None:
    """List the rule sets that ship."""
    from guardagent.packs.catalogue import packs

    found = packs()
    if as_json:
        print_json({"packs": [{"name": f"guardagent:{one.name}", "summary": one.summary} for one in found]})
        return
    width = max(len(one.name) for one in found)
    for one in found:
        print_line(f"guardagent:{one.name:{width}}  {one.summary}")


def show_pack(name: PackName, *, as_json: Json = False) -> None:
    """Show the page, the rules and the parameters of a pack."""
    from guardagent.packs.catalogue import pack

    found = pack(name)
    described = found.description()
    if as_json:
        print_json(described)
        return
    print_line(found.page.rstrip() + "\n")
    print_line(f"Rules: {', '.join(described['rules'])}")
    print_line("".join(f"Constant {name}: {value!r}\n" for name, value in described["constants"].items()).rstrip())
    print_line("".join(f"Tag {tag}: {', '.join(tools)}\n" for tag, tools in described["tools"].items()).rstrip())
    print_line(f"Folder: {found.folder}")


def include_pack(
    name: PackName, *, policies: Target = Path("policies.yaml"), trial: Trial = False, as_json: Json = False
) -> None:
    """Add a pack to 'include:' of a policy file."""
    from guardagent.packs.catalogue import add_pack, pack

    entry = add_pack(pack(name), policies, trial=trial)
    if as_json:
        print_json({"policies": str(policies), "entry": entry})
    else:
        print_line(f"{policies}: includes {entry}")
