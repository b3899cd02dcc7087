"""The response cache: a model's answers on disk, so that the same request is paid for once.

Requests are equal if model, messages, temperature and sample are; the random marks of a prompt do not count. The files
hold the content of requests, so only their owner can read them.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from guardagent.errors import InputError
from guardagent.models import Completion, Model, model_name
from guardagent.types import Usage

if TYPE_CHECKING:
    from guardagent.models.prompts import ModelCall


class ResponseCache:
    """The answers in a folder, which is created if missing. Safe to use from several threads and processes.

    Raises:
        InputError: the folder cannot be created, or (on reading) a file holds no answer.
    """

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be created as a cache folder: {error.strerror}") from None

    def get(self, model: Model, call: ModelCall) -> Completion | None:
        """Returns the stored answer to an equal request, or None."""
        path = self._path(model, call)
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            return Completion(_with_marks("".join(stored["text"]), call), Usage(**stored["usage"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: does not contain a model answer ({error}); delete it") from None

    def put(self, model: Model, call: ModelCall, answer: Completion) -> None:
        """Stores an answer; the file is renamed into place, so that nobody reads half of it."""
        path = self._path(model, call)
        stored = {"text": _without_marks(answer.text, call), "usage": asdict(answer.usage)}
        temp = path.with_suffix(f".{secrets.token_hex(4)}")
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                json.dump(stored, file)
            temp.replace(path)
        except OSError as error:
            raise InputError(f"{path}: the response cache cannot be written: {error.strerror}") from None

    def discard(self, model: Model, call: ModelCall) -> None:
        """Removes the answer to an equal request, if there is one."""
        self._path(model, call).unlink(missing_ok=True)

    def _path(self, model: Model, call: ModelCall) -> Path:
        identity = getattr(model, "identity", model_name(model))
        messages = [(message.role, _without_marks(message.content, call)) for message in call.prompt.messages]
        limit = getattr(model, "max_tokens", None)
        question = json.dumps([identity, limit, call.temperature, call.sample, messages])
        digest = hashlib.sha256(question.encode()).hexdigest()
        return self._folder / digest[:2] / f"{digest}.json"


def _without_marks(text: str, call: ModelCall) -> str:
    for number, mark in enumerate(_marks(call)):
        text = text.replace(mark, f"\0{number}")
    return text


def _with_marks(text: str, call: ModelCall) -> str:
    for number, mark in enumerate(_marks(call)):
        text = text.replace(f"\0{number}", mark)
    return text


def _marks(call: ModelCall) -> list[str]:
    return [mark for mark in (call.prompt.mark, call.prompt.shared_mark, call.nonce) if mark]
