"""The entry point of the command line. Imports everything late, so that an interrupt is handled from the start."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs a command and ends the process with its exit status."""
    try:
        from guardagent.cli.commands import execute

        status = execute(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


if __name__ == "__main__":
    main()
