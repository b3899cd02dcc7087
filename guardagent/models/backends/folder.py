"""A model whose answers a person, or another program, writes into a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from guardagent._support.files import read_text, save_text
from guardagent.errors import InputError, ModelError
from guardagent.models import Completion, Message
from guardagent.models.backends.openai import marked_request
from guardagent.types import Usage

MAX_BYTES = 10_000_000  # of an answer


class Backend:
    """`folder/PATH`: writes each prompt to `PATH/NAME.prompt.md`, and reads the answer from `PATH/NAME.answer.md`.

    NAME depends on the content of the request alone. The random marks of a prompt do not count: in the file they are
    marks that are the same in every run, and an answer that repeats them gets those of the request. Only the owner can
    read the files. Safe to use from several threads and processes.

    Args:
        path: the folder, which is created if it is missing.

    Raises:
        InputError: it is not a folder, or cannot be created.
    """

    prices = (0.0, 0.0)
    max_tokens = MAX_BYTES

    def __init__(self, path: str) -> None:
        self.name = f"folder/{path}"
        self._folder = Path(path)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise InputError(f"{path!r}: cannot be used as a folder for answers: {error}; expected a folder") from None

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    @property
    def pending(self) -> str:
        """The number of prompts with an answer, and the oldest one without; empty if each has one."""
        prompts = sorted(self._folder.glob("*.prompt.md"), key=lambda prompt: (prompt.stat().st_mtime_ns, prompt.name))
        answers = {prompt: prompt.with_name(prompt.name.replace(".prompt.", ".answer.")) for prompt in prompts}
        waiting = [prompt for prompt, answer in answers.items() if not _read(answer)]
        if not waiting:
            return ""
        done = f"{len(prompts) - len(waiting):,} of {len(prompts):,} answered"
        return f"{done}, next: {waiting[0]}; write the answer to {answers[waiting[0]]} and run again"

    def complete(self, messages: Sequence[Message], *, temperature: float = 0.0, sample: int = 0) -> Completion:
        """Answers as a `Model`.

        Raises:
            ModelError: there is no answer yet, or a file cannot be read or written.
        """
        request = marked_request(messages)
        marks, name = request.constant_marks(), request.digest(float(temperature), sample)[:32]
        prompt, answer = self._folder / f"{name}.prompt.md", self._folder / f"{name}.answer.md"
        try:
            if not prompt.exists():
                save_text(prompt, _page(request.with_marks(marks)), mode=0o600)
            text = _read(answer)
        except (InputError, OSError) as error:
            raise ModelError(f"model {self.name!r}: {error}") from None
        if not text:
            raise ModelError(f"model {self.name!r} waits for the answer in '{answer}'; write it and run again")
        for constant, mark in zip(marks, request.marks, strict=True):
            text = text.replace(constant, mark)
        return Completion(text, Usage())


def _page(messages: Iterable[Message]) -> str:
    text = "\n\n".join(f"# {message.role.capitalize()}\n\n{message.content}" for message in messages)
    return text.encode("utf-8", "backslashreplace").decode() + "\n"


def _read(path: Path) -> str:
    """Returns an answer, readable for its owner only; empty if the file is missing or blank."""
    if not path.exists():
        return ""
    if not path.is_file():
        raise InputError(f"{path}: is not a file; expected the text of the answer")
    text = read_text(path, limit=MAX_BYTES, may_be_blank=True)
    with contextlib.suppress(OSError):  # it belongs to another user
        path.chmod(0o600)
    return text if text.strip() else ""
