"""Prints the oldest versions of a framework that its adapter was tried with, for pip: `... NAME`."""

from __future__ import annotations

import sys

from tests.frameworks.newest_versions import tried_versions


def oldest_versions(name: str) -> list[str]:
    """Returns the requirements of a framework, by the name of its extra."""
    return [f"{name}=={oldest}.*" for name, (oldest, _) in tried_versions(name).items()]


if __name__ == "__main__":
    sys.stdout.write(" ".join(oldest_versions(sys.argv[1])))
