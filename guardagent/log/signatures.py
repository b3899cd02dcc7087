"""Signatures of a log with Ed25519: whoever has the public key can verify them, and nobody can make them with it.

An entry of the kind `signature` signs the number and the hash of the entry before it, and so everything before. A
head, and entries with a person's answer, carry a signature of their own:

    {"count":41,"digest":"sha256:…","kind":"signature","signature":{"key":"3f9a…","value":"…"},"time":"…"}
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardagent._support.files import read_text
from guardagent._support.requirements import require
from guardagent.errors import ContentError, InputError
from guardagent.log.records import canonical_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KIND = "signature"
ANSWERS = frozenset({"approval", "approval_answer", "grant", "grant_revoked", "stop", "stop_lifted"})
"""The kinds of entries that are signed by themselves: what people decided."""

_MAX_BYTES = 10_000


class SigningKey:
    """A private key.

    Args:
        path: its file, in PEM.

    Raises:
        InputError: the file cannot be read or is not such a key, or `cryptography` is missing.
    """

    def __init__(self, path: Path | str) -> None:
        self._key = _private_key(Path(path))
        self.id = key_id(self._key.public_key())

    def head(self, count: int, digest: str) -> dict[str, str]:
        """Returns the signature of a head."""
        return self._sign(_head_bytes(count, digest))

    def record(self, count: int, digest: str) -> dict[str, Any]:
        """Returns the record that signs everything up to an entry."""
        return {"kind": KIND, "count": count, "digest": digest, "signature": self.head(count, digest)}

    def signed(self, text: str) -> str:
        """Returns the JSON of an entry with a signature, if it is one of those that are signed by themselves."""
        fields = json.loads(text)
        if fields.get("kind") not in ANSWERS:
            return text
        return canonical_json({**fields, "signature": self._sign(_answer_bytes(fields))})

    def _sign(self, content: bytes) -> dict[str, str]:
        return {"key": self.id, "value": base64.b64encode(self._key.sign(content)).decode()}


class PublicKeys:
    """The public keys of a log, the oldest first. Once a later one has signed, none of those before it counts.

    Args:
        paths: their files, in PEM.

    Raises:
        InputError: a file cannot be read or is not such a key, or `cryptography` is missing.
    """

    def __init__(self, paths: Sequence[Path | str]) -> None:
        keys = [_public_key(Path(path)) for path in paths]
        self._keys = {key_id(key): key for key in keys}
        self._order = list(self._keys)
        self._oldest = 0

    def head_problem(self, count: int, digest: str, signature: Any) -> str | None:
        """Returns the problem with the signature of a head; None if it is intact."""
        return self._problem(_head_bytes(count, digest), signature)

    def entry_problem(self, fields: Mapping[str, Any], seq: int, prev: str) -> str | None:
        """Returns the problem with the signature of an entry; None if it is intact, or has none and needs none.

        Args:
            fields: the entry.
            seq: its number.
            prev: the hash of the entry before it.
        """
        if fields.get("kind") == KIND:
            if (fields.get("count"), fields.get("digest")) != (seq - 1, prev):
                return "signs another entry than the one before it"
            return self._problem(_head_bytes(seq - 1, prev), fields.get("signature"))
        if fields.get("kind") in ANSWERS and "signature" in fields:
            return self._problem(_answer_bytes(fields), fields["signature"])
        return None

    def _problem(self, content: bytes, signature: Any) -> str | None:
        from cryptography.exceptions import InvalidSignature

        if not isinstance(signature, Mapping) or not isinstance(signature.get("value"), str):
            return "has no signature"
        name = signature.get("key")
        if name not in self._keys:
            return f"is signed by the key {str(name)[:40]!r}, which is not among the public keys"
        place = self._order.index(name)
        if place < self._oldest:
            return f"is signed by the key {name!r}, after a later key has signed"
        try:
            self._keys[name].verify(base64.b64decode(signature["value"]), content)
        except (InvalidSignature, ValueError):
            return f"has a signature that the key {name!r} did not make"
        self._oldest = place
        return None


def new_key(path: Path) -> tuple[Path, str]:
    """Creates a private key, which only its owner may read, and the public key beside it, with `.pub`.

    Returns:
        The file of the public key, and the id of the key.

    Raises:
        InputError: a file exists or cannot be written, or `cryptography` is missing.
    """
    require({"cryptography": "42"}, "signing")
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    beside = path.with_name(f"{path.name}.pub")
    for file, content, mode in ((path, private, 0o600), (beside, public, 0o644)):
        try:
            with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as stream:
                stream.write(content)
        except OSError as error:
            raise InputError(f"{file}: cannot be created: {error.strerror}; expected a new file") from None
    return beside, key_id(key.public_key())


def key_id(key: Ed25519PublicKey) -> str:
    """Returns the name of a key in signatures: the beginning of its hash."""
    from cryptography.hazmat.primitives import serialization as form

    return hashlib.sha256(key.public_bytes(form.Encoding.Raw, form.PublicFormat.Raw)).hexdigest()[:16]


def _private_key(path: Path) -> Ed25519PrivateKey:
    require({"cryptography": "42"}, "signing")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(read_text(path, limit=_MAX_BYTES).encode(), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ContentError("is not a private key; expected one that 'guardagent log new-key' has created", path)
    return key


def _public_key(path: Path) -> Ed25519PublicKey:
    require({"cryptography": "42"}, "signing")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(read_text(path, limit=_MAX_BYTES).encode())
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ContentError("is not a public key; expected the '.pub' file of 'guardagent log new-key'", path)
    return key


def _head_bytes(count: int, digest: str) -> bytes:
    return f"guardagent log head\n{count} {digest}".encode()


def _answer_bytes(fields: Mapping[str, Any]) -> bytes:
    """Returns what is signed of an entry: everything but the signature."""
    content = canonical_json({name: value for name, value in fields.items() if name != "signature"})
    return f"guardagent log entry\n{content}".encode("utf-8", "surrogatepass")
