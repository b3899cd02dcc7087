"""A store in a shared Chroma server: `chroma://HOST:PORT/COLLECTION`, for HTTPS with `?tls=1`.

Chroma finds candidates by vectors derived from profiles, without an embedding model. The candidates are approximate;
their distances, and so their order, are exact. Prompts show the content: anyone who can write to the server can
influence models.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from guardagent._support.files import parse_json
from guardagent._support.requirements import install_hint
from guardagent.errors import GuardError, InputError
from guardagent.programs.memory.retrieval import Demonstration, Neighbour, Query, neighbours_of, parse_demonstration
from guardagent.programs.memory.search import profile

TOKEN = "GUARDAGENT_CHROMA_TOKEN"  # noqa: S105 - the name of the variable that holds it
_TIMEOUT = 30.0
_AT_ONCE = 256
_CANDIDATES = 128


class Store:
    """The demonstrations of one collection.

    The server acknowledges additions; a large addition is several requests, not one transaction.

    Args:
        address: `chroma://HOST:PORT/COLLECTION`.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        url = urlsplit(address)
        self._name = url.path.strip("/")
        if not url.hostname or not self._name:
            raise ValueError(f"{address!r} is incomplete; expected chroma://HOST:PORT/COLLECTION")
        self._tls = parse_qs(url.query).get("tls", ["0"]) == ["1"]
        self._host, self._port = url.hostname, url.port or (443 if self._tls else 8000)
        self._lock = threading.Lock()
        self._connection: tuple[int, Any] | None = None

    def __len__(self) -> int:
        with self._open_collection() as collection:
            return int(collection.count())

    def __iter__(self) -> Iterator[Demonstration]:
        with self._open_collection() as collection:
            got = collection.get(include=["metadatas"])
        names = [name for _, name in sorted(zip(map(_added, got["metadatas"]), got["ids"], strict=True))]
        for start in range(0, len(names), _AT_ONCE):
            portion = names[start : start + _AT_ONCE]
            with self._open_collection() as collection:
                got = collection.get(ids=portion, include=["documents"])
            documents = dict(zip(got["ids"], got["documents"], strict=True))
            yield from (self._demonstration(documents[name]) for name in portion if name in documents)

    def add(self, new: Sequence[Demonstration]) -> int:
        """Adds the new ones, and returns their number."""
        there = self.known(new)
        fresh = [demonstration for demonstration in dict.fromkeys(new) if demonstration not in there]
        for start in range(0, len(fresh), _AT_ONCE):
            portion, now = fresh[start : start + _AT_ONCE], time.time_ns()
            with self._open_collection() as collection:
                collection.add(
                    ids=[_name(demonstration) for demonstration in portion],
                    embeddings=[
                        _vector(demonstration.agent_input, demonstration.agent_output) for demonstration in portion
                    ],
                    documents=[demonstration.to_json() for demonstration in portion],
                    metadatas=[{"added": now + at} for at in range(len(portion))],
                )
        return len(fresh)

    def known(self, demonstrations: Collection[Demonstration]) -> set[Demonstration]:
        """Returns the demonstrations that the collection has."""
        names = {_name(demonstration): demonstration for demonstration in demonstrations}
        known_demonstrations: set[Demonstration] = set()
        for start in range(0, len(names), _AT_ONCE):
            with self._open_collection() as collection:
                got = collection.get(ids=list(names)[start : start + _AT_ONCE], include=[])
            known_demonstrations |= {names[name] for name in got["ids"]}
        return known_demonstrations

    def nearest(self, query: Query) -> list[Neighbour]:
        """Returns the k nearest of the candidates from the server; for `least_similar`, scans the whole collection."""
        every = iter(self) if query.least_similar else self._candidates(query)
        return query.best(neighbours_of(every, query)) if query.k else []

    def _candidates(self, query: Query) -> Iterator[Demonstration]:
        with self._open_collection() as collection:
            got = collection.query(
                query_embeddings=[_vector(query.agent_input, query.agent_output)],
                n_results=max(_CANDIDATES, 8 * query.k),
                include=["documents", "metadatas"],
            )
        rows = zip(map(_added, got["metadatas"][0]), got["ids"][0], got["documents"][0], strict=True)
        yield from (self._demonstration(document) for _, _, document in sorted(rows))

    def _demonstration(self, document: str) -> Demonstration:
        return parse_demonstration(parse_json(document, self.address), self.address, None)

    @contextlib.contextmanager
    def _open_collection(self) -> Iterator[Any]:
        """Yields the collection, and converts every error of the client to an InputError."""
        try:
            with self._lock:
                if (
                    self._connection is None or self._connection[0] != os.getpid()
                ):  # a fork must not use its parent's connection
                    self._connection = os.getpid(), self._collection()
                collection = self._connection[1]
            yield collection
        except GuardError:
            raise
        except Exception as error:  # noqa: BLE001 - the client raises many kinds of errors
            raise InputError(
                f"{self.address}: the Chroma server cannot be used: {type(error).__name__}: {error}"
            ) from None

    def _collection(self) -> Any:
        try:
            import chromadb
        except ImportError:
            raise InputError(f"{self.address}: Chroma's client is not installed; {install_hint('chroma')}") from None
        token = os.environ.get(TOKEN)
        client = chromadb.HttpClient(
            host=self._host,
            port=self._port,
            ssl=self._tls,
            headers={"x-chroma-token": token} if token else None,
            settings=chromadb.Settings(anonymized_telemetry=False),
        )
        session = getattr(getattr(client, "_server", None), "_session", None)
        if session is not None:  # the client has no timeout, and no option for one
            session.timeout = _TIMEOUT
        return client.get_or_create_collection(self._name, embedding_function=None)


def _name(demonstration: Demonstration) -> str:
    return hashlib.sha256(demonstration.to_json().encode()).hexdigest()


def _added(metadata: Mapping[str, Any]) -> int:
    return int(metadata["added"])


def _vector(agent_input: str, agent_output: str) -> list[float]:
    """Returns the square roots of the counts, which emphasize rare characters."""
    counts = profile(agent_input, agent_output)["counts"][0].ravel()
    vector: list[float] = np.sqrt(counts.astype(np.float32)).tolist()
    return vector
