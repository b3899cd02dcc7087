"""The command `generate-server`: a local model behind an OpenAI-compatible address, guarded while it writes calls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from guardagent.cli.listen import (
    AllowHost,
    Certificate,
    CertificateKey,
    ClientTokens,
    Insecure,
    MaxBody,
    MaxRequests,
    OidcFile,
    ReceiveTimeout,
    access_of,
    certificate_of,
    read_address,
)
from guardagent.errors import InputError

ModelFolder = Annotated[str, typer.Argument(metavar="MODEL", help="The folder of a model of transformers.")]
ModelPolicies = Annotated[list[Path], typer.Option("--policies", help="The policy file; repeatable.")]
ConversationState = Annotated[
    str | None,
    typer.Option("--state", metavar="ADDRESS", help="Where conversations last: sqlite:FILE (default: in memory)."),
]
LogFile = Annotated[Path | None, typer.Option("--log", metavar="FILE", help="The audit log: .jsonl or .db.")]
Device = Annotated[str, typer.Option("--device", help="The device of the model: cpu, cuda and so on.")]
Dtype = Annotated[str, typer.Option("--dtype", help="The type of its numbers: auto, float32, bfloat16 and so on.")]
Slots = Annotated[int, typer.Option("--slots", help="The most turns that are generated at once.")]
MaxLength = Annotated[int, typer.Option("--max-length", help="The most tokens of a prompt with its turn.")]
MaxTokens = Annotated[int, typer.Option("--max-tokens", help="The most tokens of a turn.")]
Mode = Annotated[str, typer.Option("--mode", help="exact: the model's own distribution; fast: fewer tokens.")]
Format = Annotated[str, typer.Option("--tool-format", help="The format of calls; auto: that of the chat template.")]
Name = Annotated[str | None, typer.Option("--name", help="The name of the model for clients (default: its folder's).")]
Address = Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="The address to listen at.")]


def generate_server(
    model: ModelFolder,
    *,
    policies: ModelPolicies,
    state: ConversationState = None,
    log: LogFile = None,
    device: Device = "cpu",
    dtype: Dtype = "auto",
    slots: Slots = 16,
    max_length: MaxLength = 4096,
    max_tokens: MaxTokens = 1024,
    mode: Mode = "exact",
    tool_format: Format = "auto",
    name: Name = None,
    listen: Address = "127.0.0.1:8765",
    tokens: ClientTokens = None,
    oidc: OidcFile = None,
    tls_cert: Certificate = None,
    tls_key: CertificateKey = None,
    insecure: Insecure = False,
    allow_host: AllowHost = None,
    max_requests: MaxRequests = 256,
    max_body: MaxBody = 4 * 1024 * 1024,
    receive_timeout: ReceiveTimeout = 30.0,
) -> None:
    """Serve a local model's chat completions; a tool call that the policy forbids never leaves the model."""
    from guardagent._support.files import log_as_text
    from guardagent._support.http import HttpEndpoint, RequestLimits
    from guardagent._support.requirements import require

    log_as_text()
    require({"starlette": "0.46", "uvicorn": "0.34"}, "server")
    if mode not in ("exact", "fast"):
        raise InputError(f"'--mode' is {mode!r}; expected 'exact' or 'fast'")
    host, port = read_address(listen)
    access = access_of(tokens, oidc)
    endpoint = HttpEndpoint(
        host,
        port,
        RequestLimits(max_requests, max_body, receive_timeout),
        authenticate=None if access is None else access.admit,
        certificate=certificate_of(tls_cert, tls_key),
        behind_proxy=insecure,
        names=tuple(allow_host or ()),
    )
    from guardagent.server.completions import load_batch, open_guard, run_completions_server
    from guardagent.server.completions.application import CompletionSettings
    from guardagent.server.completions.generation import ServedConversations

    principals: dict[str, Any] | None = None if access is None else {}
    conversations = ServedConversations(open_guard(policies, state, log, principals), principals)
    settings: Any = CompletionSettings(name or Path(model).resolve().name, mode, max_tokens, tool_format)  # type: ignore[arg-type]
    batch = load_batch(model, device=device, dtype=dtype, slots=slots, max_length=max_length)
    asyncio.run(run_completions_server(settings, conversations, batch, endpoint))
