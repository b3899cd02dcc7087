"""The program that a host's hook runs: passes the event to the daemon, and prints its answer.

    python -I -S client.py HOST EVENT LOCK

It imports nothing of this package and little else, since hosts run it before each tool call. Whatever goes wrong before
a tool runs ends in status 2 with a reason on standard error, which every host takes as a denial.
"""

import _socket  # `socket` itself would take longer to import than everything here
import os
import sys
import time

SOCKET = "hooks.sock"
SECONDS = 20.0
"""The limit of a hook, below that of every host."""
MAX_EVENT = 32 * 1024 * 1024
BEFORE = ("PreToolUse", "PreSkillShellCommand", "preToolUse", "BeforeTool")
STALE = 255  # the status in the answer of a daemon that is about to end
_CONNECTS_AFTER = 0.02


def main(arguments: list[str]) -> int:
    """Runs a hook. Returns the exit status."""
    event = arguments[1] if len(arguments) > 1 else BEFORE[0]
    try:
        _host, _event, lock = arguments
        status, output, errors = exchange(arguments, read_event(), os.path.dirname(lock), time.monotonic() + SECONDS)
    except Exception as error:  # noqa: BLE001 - whatever it is, the tool must not run
        sys.stderr.write(f"GuardAgent cannot judge this, so it is denied: {error or type(error).__name__}\n")
        return 2 if event in BEFORE else 1
    sys.stdout.buffer.write(output)
    sys.stderr.buffer.write(errors)
    sys.stdout.flush()
    return status


def lost(host: str) -> str:
    """Returns what to do about hooks in the settings of a host whose state was removed."""
    name = host.replace("_", "-")
    return f"their state is gone; 'guardagent hook install {name}' makes it anew, 'hook uninstall {name}' removes them"


def read_event() -> bytes:
    """Reads the event from standard input.

    Raises:
        OSError: it is too large.
    """
    text = sys.stdin.buffer.read(MAX_EVENT + 1)
    if len(text) > MAX_EVENT:
        raise OSError("the event is larger than 32 MiB")
    return text


def exchange(arguments: list[str], text: bytes, folder: str, deadline: float) -> tuple[int, bytes, bytes]:
    """Asks the daemon, which is started if it is not there. Returns the exit status and both outputs.

    Raises:
        OSError: there is no usable answer.
    """
    if not os.path.exists(arguments[2]):
        raise OSError(lost(arguments[0]))
    os.chdir(folder)  # the address of a socket may not be long
    message = frame([*(argument.encode() for argument in arguments), text])
    is_started = False
    while time.monotonic() < deadline:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                connection.connect(SOCKET)
            except (FileNotFoundError, ConnectionRefusedError):
                is_started = is_started or start(folder)
                time.sleep(_CONNECTS_AFTER)
                continue
            parts = answer_of(connection, message)
        finally:
            connection.close()
        if parts is not None:
            return parts
        is_started = False  # it ended meanwhile
        time.sleep(_CONNECTS_AFTER)
    raise OSError(f"the daemon did not answer; see daemon.log in {folder}")


def answer_of(connection: "_socket.socket", message: bytes) -> "tuple[int, bytes, bytes] | None":
    """Sends a message. Returns the answer; None if the daemon ends, and has done nothing.

    Raises:
        OSError: the answer is incomplete; the daemon may have judged.
    """
    chunks = []
    try:
        connection.sendall(message)
        while chunk := connection.recv(65536):
            chunks.append(chunk)
    except (BrokenPipeError, ConnectionResetError):  # a part of the message was not read, so nothing was judged
        return None
    parts = unframe(b"".join(chunks))
    if len(parts) != 3 or not parts[0].isdigit():
        raise OSError("the daemon ended before it had answered, and may have counted the call; try the call again")
    status = int(parts[0])
    return None if status == STALE else (status, parts[1], parts[2])


def start(folder: str) -> bool:
    """Starts the daemon. A second one ends at once."""
    if os.fork():
        return True
    try:
        os.setsid()
        log = os.open("daemon.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.execv(sys.executable, [sys.executable, "-I", "-m", "guardagent.hooks.hook_daemon", folder])
    finally:
        os._exit(127)


def frame(parts: list[bytes]) -> bytes:
    """Returns parts as one message: their number and lengths, a space between, a newline, and the parts."""
    head = " ".join(str(len(part)) for part in parts)
    return b"".join([f"{len(parts)} {head}\n".encode(), *parts])


def unframe(message: bytes) -> list[bytes]:
    """Returns the parts of a message; none if it is incomplete."""
    head, newline, rest = message.partition(b"\n")
    numbers = head.split()
    if not newline or not all(number.isdigit() and len(number) < 12 for number in numbers):
        return []
    count, *lengths = map(int, numbers)
    if count != len(lengths) or sum(lengths) != len(rest):
        return []
    parts = []
    for length in lengths:
        parts.append(rest[:length])
        rest = rest[length:]
    return parts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
