"""Prints the oldest versions of a framework that its adapter was tried with, for pip: `... NAME`."""

from __future__ import annotations

import sys
from importlib import import_module


def oldest_versions(name: str) -> list[str]:
    """Returns the requirements of a framework, by the name of its extra."""
    facts = import_module(f"guardagent.frameworks.{name.replace('-', '_')}.package")
    tried = getattr(facts, "TRIED", None) or {name: (version, version) for name, version in facts.DISTRIBUTIONS.items()}
    return [f"{name}=={oldest}.*" for name, (oldest, _) in tried.items()]


if __name__ == "__main__":
    sys.stdout.write(" ".join(oldest_versions(sys.argv[1])))
