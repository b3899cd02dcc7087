"""A network of its own for a confined command, from which only a gateway leads to some hosts.

The command is in a network namespace without any interface but its loopback. The gateway is a process outside of it
that listens inside, as an HTTP proxy, and connects to the hosts of a list; the kernel lets nothing else through.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import ipaddress
import os
import re
import socket
import struct
from collections.abc import Collection

from guardagent.sandbox import hardening

VARIABLES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY")
HTTPS_PORT = 443
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _IS_UP = 0x8913, 0x8914, 0x1
_CONNECT = re.compile(rb"CONNECT \[?([\w.:-]+?)\]?:([0-9]{1,5}) HTTP/1\.[01]\r\n")
_HEAD_SECONDS, _CONNECT_SECONDS, _MOST_BYTES = 10.0, 30.0, 65_536


def problem() -> str:
    """Returns why a command cannot have a network of its own on this machine, and the fix; empty if it can."""
    if not (child := os.fork()):
        try:
            _unshare()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - whatever it is, the parent goes on
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        return "the kernel gives ordinary users no network namespaces; allow unprivileged user namespaces"
    return ""


def enter(hosts: Collection[str]) -> int:
    """Moves this process into a network of its own, with a gateway to `HOST:PORT`s. Returns the gateway's port.

    Raises:
        OSError: the kernel does not allow it.
    """
    ours, theirs = socket.socketpair()
    if not os.fork():
        try:
            ours.close()
            _serve(theirs, frozenset(hosts))
        finally:
            os._exit(1)
    theirs.close()
    _unshare()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = struct.unpack("16xh14x", fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack("16sh14x", b"lo", 0)))[0]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _IS_UP))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listening.fileno()]))])
        port: int = listening.getsockname()[1]
    ours.recv(1)  # the gateway has it
    ours.close()
    return port


def _unshare() -> None:
    user, group = os.getuid(), os.getgid()
    hardening.unshare(_NEW_USER | _NEW_NETWORK)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 - at once, not created
            file.write(text)


# --- the gateway


def _serve(parent: socket.socket, hosts: frozenset[str]) -> None:
    """Serves until the command ends."""
    command = os.pidfd_open(os.getppid())  # a signal on its end would have to pass its own confinement
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)  # the pipes of the command are its own
    os.dup2(null, 1)
    _, [(_, _, data)], *_ = parent.recvmsg(1, socket.CMSG_SPACE(4))
    listening = socket.socket(fileno=array.array("i", data)[0])
    parent.send(b".")
    asyncio.run(_gateway(listening, hosts, command))


async def _gateway(listening: socket.socket, hosts: frozenset[str], command: int) -> None:
    asyncio.get_running_loop().add_reader(command, os._exit, 0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            await _pass_on(reader, writer, hosts)
        writer.close()

    async with await asyncio.start_server(serve, sock=listening, limit=_MOST_BYTES) as server:
        await server.serve_forever()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hosts: frozenset[str]) -> None:
    async with asyncio.timeout(_HEAD_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
    wanted = _CONNECT.match(head)
    name, port = (wanted[1].decode("ascii").lower(), int(wanted[2])) if wanted else ("", 0)
    address = await _address(name, port) if f"{name}:{port}" in hosts else None
    if address is None:
        writer.write(
            b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nX-Guardagent: not a host of --confine-host\r\n\r\n"
        )
        await writer.drain()
        return
    async with asyncio.timeout(_CONNECT_SECONDS):
        there, to_there = await asyncio.open_connection(address, port)
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    try:
        await asyncio.gather(_copy(reader, to_there), _copy(there, writer))
    finally:
        to_there.close()


async def _address(name: str, port: int) -> str | None:
    """The address of a host; None for one of a private network, if it is not listed as an address itself."""
    entries = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in entries]
    return next((text for text in addresses if text == name or ipaddress.ip_address(text).is_global), None)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_MOST_BYTES):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
