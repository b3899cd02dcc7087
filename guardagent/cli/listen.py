"""Options of commands that listen at an address: who may call, TLS, and limits on clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent._support.http import HttpEndpoint
    from guardagent.frameworks.mcp.adapter.http_front import HttpLimits
    from guardagent.server.access import AccessControl

Listen = Annotated[
    str | None, typer.Option("--listen", metavar="HOST:PORT", help="Serve clients over HTTP instead of standard input.")
]
ClientTokens = Annotated[
    Path | None,
    typer.Option("--tokens", metavar="FILE", help="Clients need a token of this store; see 'guardagent token create'."),
]
OidcFile = Annotated[
    Path | None,
    typer.Option("--oidc", metavar="FILE", help="Clients need a token of the OpenID provider that this file names."),
]
Certificate = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="The TLS certificate, with its chain: a PEM file.")
]
CertificateKey = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate: a PEM file.")
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Listen without TLS: a reverse proxy in front ends it. Clients still need tokens."),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="A further value of the header Host; repeatable."),
]
MaxSessions = Annotated[int, typer.Option("--max-sessions", help="The most open sessions; each starts a server.")]
MaxOwnSessions = Annotated[int, typer.Option("--max-sessions-per-caller", help="The most open sessions of one caller.")]
MaxRequests = Annotated[int, typer.Option("--max-requests", help="The most requests in flight.")]
MaxBody = Annotated[int, typer.Option("--max-body", help="The most bytes of a request.")]
ReceiveTimeout = Annotated[
    float, typer.Option("--receive-timeout", help="The seconds in which a client must send a request, or read a part.")
]
SessionTimeout = Annotated[
    float, typer.Option("--session-timeout", help="The seconds without requests after which a session ends.")
]


def endpoint_of(
    listen: str | None,
    *,
    tokens: Path | None,
    oidc: Path | None,
    certificate: Path | None,
    key: Path | None,
    insecure: bool,
    names: list[str] | None,
    limits: dict[str, Any],
) -> HttpEndpoint[HttpLimits] | None:
    """Returns the address to listen at, and who may use it; None for standard input.

    Raises:
        InputError: an option is invalid or needs another one, or the address would be open to everyone.
    """
    if listen is None:
        dependent = {
            "--tokens": tokens,
            "--oidc": oidc,
            "--tls-cert": certificate,
            "--tls-key": key,
            "--insecure": insecure,
            "--allow-host": names,
        }
        for option in (name for name, value in dependent.items() if value):
            raise InputError(f"'{option}' needs '--listen'")
        return None
    from guardagent.frameworks.mcp.adapter import require_mcp

    require_mcp()
    from guardagent._support.http import HttpEndpoint
    from guardagent.frameworks.mcp.adapter.http_front import HttpLimits

    host, port = read_address(listen)
    access = access_of(tokens, oidc)
    return HttpEndpoint(
        host,
        port,
        authenticate=None if access is None else access.admit,
        certificate=certificate_of(certificate, key),
        behind_proxy=insecure,
        names=tuple(names or ()),
        limits=HttpLimits(**limits),
    )


def read_address(text: str) -> tuple[str, int]:
    """Reads the address to listen at.

    Raises:
        InputError: it is no HOST:PORT.
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port[:6]) < 65536:
        raise InputError(f"'--listen' is {text!r}; expected HOST:PORT, such as '127.0.0.1:8765'")
    return host.strip("[]"), int(port)


def access_of(tokens: Path | None, oidc: Path | None) -> AccessControl | None:
    """Returns who may call; None if there is neither a token store nor a provider.

    Raises:
        InputError: a file is missing or invalid.
    """
    from guardagent.server.access import AccessControl, OidcVerifier, TokenStore, read_oidc_settings

    if tokens is None and oidc is None:
        return None
    store = None if tokens is None else TokenStore(tokens)
    verifier = None if oidc is None else OidcVerifier(read_oidc_settings(oidc))
    return AccessControl(store, verifier)


def certificate_of(certificate: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    """Returns the files of a certificate and its key; None without any.

    Raises:
        InputError: one of them is missing.
    """
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "--tls-cert" if certificate is None else "--tls-key"
        raise InputError(f"'{missing}' is missing; expected both files, of the certificate and of its key")
    return certificate, key
