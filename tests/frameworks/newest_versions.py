"""Prints the installed versions of a framework, and which are newer than its adapter was tried with: `... NAME`."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from importlib.metadata import version

from guardagent._support.requirements import warn_untried


def tried_versions(name: str) -> dict[str, tuple[str, str]]:
    """Returns the oldest and the newest version tried of each distribution, by the name of the framework's extra."""
    facts = import_module(f"guardagent.frameworks.{name.replace('-', '_')}.package")
    return getattr(facts, "TRIED", None) or {name: (version, version) for name, version in facts.DISTRIBUTIONS.items()}


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    tried = tried_versions(sys.argv[1])
    sys.stdout.writelines(f"{distribution} {version(distribution)}\n" for distribution in tried)
    warn_untried(tried)
