"""Creates the secrets of `compose.yaml` beside it.

Run it as root, so that the servers' user owns the file that it reads.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

USER = 10001  # of the image; the database's client accepts only a file that nobody else can read


def main() -> None:
    """Writes the password of the database, and the file with which the servers connect."""
    folder, password = Path(__file__).parent, secrets.token_urlsafe(32)
    names = ("database_password", "pgpass")
    there = [name for name in names if (folder / name).exists()]
    if there:
        raise SystemExit(f"{folder / there[0]} is there already; a new password would lock the servers out")
    for name, text in zip(names, (password, f"database:5432:guardagent:guardagent:{password}\n"), strict=True):
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    if os.geteuid() == 0:
        os.chown(folder / "pgpass", USER, USER)
    else:
        sys.stdout.write(f"next: sudo chown {USER}:{USER} {folder / 'pgpass'}\n")
    sys.stdout.write(f"created {' and '.join(names)} in {folder}; keep them out of version control\n")


if __name__ == "__main__":
    main()
