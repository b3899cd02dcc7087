"""Human approval at the terminal of a process whose standard input carries messages."""

from __future__ import annotations

from pathlib import Path

from guardagent.enforcement import Approval, ApprovalRequest


def ask_at_terminal(request: ApprovalRequest) -> Approval:
    """Returns the approval: `y` approves, any other input rejects. Without a terminal the call is rejected."""
    try:
        with Path("/dev/tty").open("r+b", buffering=0) as terminal:
            terminal.write(f"{request.text()}\n[y/N] ".encode("utf-8", "backslashreplace"))
            reply = terminal.readline().strip().lower()
    except OSError as error:
        return Approval("reject", reason=f"there is no terminal for the approval: {error.strerror}")
    return Approval("approve") if reply in (b"y", b"yes") else Approval("reject")
