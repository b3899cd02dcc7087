"""What every remote model has in common: bounded connections, one deadline, retries, and errors without secrets."""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from guardagent._terminal import strip_control_characters
from guardagent.errors import AnswerError, InputError, ModelError, UnsentError
from guardagent.models.secrets import scrub

if TYPE_CHECKING:
    import openai

    from guardagent.models import Completion
    from guardagent.types import Usage

T = TypeVar("T")

MAX_ANSWER = 200_000  # characters
_MAX_MESSAGE = 300
_FIRST_PAUSE = 0.5  # seconds; doubled each time
_LONGEST_PAUSE = 8.0
_TRANSIENT = (408, 409, 425, 429)
_HINTS = {
    401: "expected a valid key in the environment",
    403: "expected a key that may use this model",
    404: "expected the name of a model that the endpoint has, and a base URL that ends as its makers say, often in /v1",
    429: "too many requests, or no credit left",
}


class Endpoint:
    """Asks one remote model.

    Args:
        name: what it is called in errors.
        timeout: seconds for one answer, with all waits and retries.
        retries: how often a request that failed for a passing cause is sent again.
        max_connections: how many requests are under way at once; the others wait for their turn.
    """

    def __init__(self, name: str, *, timeout: float = 120.0, retries: int = 3, max_connections: int = 16) -> None:
        from guardagent.models import require_timeout

        require_timeout(timeout)
        if retries < 0 or max_connections < 1:
            raise InputError("expected no negative retries, and at least one connection")
        self.name = name
        self.timeout = timeout
        self._retries = retries
        self._max_connections = max_connections
        self._slots: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    async def request(self, send: Callable[[], Awaitable[T]]) -> T:
        """The answer that `send` brings, tried again while its failures may pass.

        Raises:
            ModelError: there was none; without any secret of the environment.
        """
        import openai  # noqa: F401 - the first time that takes a second, which is no time of the endpoint either

        slots, ends = self._semaphore(), None
        try:
            async with slots:  # waiting for a turn is no time of the endpoint
                ends = time.monotonic() + self.timeout
                async with asyncio.timeout(self.timeout):
                    return await self._send_with_retries(send, ends)
        except TimeoutError:
            raise self.error(f"gave no answer within {self.timeout:g} seconds") from None

    def error(self, message: str) -> ModelError:
        """An error of this model: one line, without secrets."""
        return ModelError(self._line(message))

    def unsent(self, message: str) -> UnsentError:
        """The error of a request that cannot be sent."""
        return UnsentError(self._line(message))

    def _line(self, message: str) -> str:
        line = " ".join(scrub(strip_control_characters(message)).split())
        return f"model {self.name!r} {line if len(line) <= _MAX_MESSAGE else line[:_MAX_MESSAGE] + '…'}"

    def completion(self, text: object, finish_reason: str | None, usage: Usage, *, called_tool: bool) -> Completion:
        """What the endpoint answered, with its secrets removed.

        Raises:
            AnswerError: it is no text, or not a whole one.
        """
        from guardagent.models import Completion

        problem = _problem(text, finish_reason, called_tool=called_tool)
        if problem:
            raise AnswerError(f"model {self.name!r} {problem}", usage)
        whole = str(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # half a character is none
        return Completion(scrub(whole), usage)

    async def _send_with_retries(self, send: Callable[[], Awaitable[T]], ends: float) -> T:
        import openai

        for attempt in range(self._retries + 1):
            try:
                return await send()
            except openai.APIError as error:
                pause = _pause(error, attempt)
                if pause is None or attempt == self._retries:
                    raise self.error(_error_message(error, attempt + 1)) from None
                if time.monotonic() + pause > ends:
                    late = f"the next try would be in {round(pause, 1):g} seconds, which is too late"
                    raise self.error(f"{_error_message(error, attempt + 1)}; {late}") from None
                await asyncio.sleep(pause)
            except ModelError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a client library raises on what it cannot read
                raise self.error(f"gave what is no answer ({type(error).__name__}: {error})") from None
        raise AssertionError

    def _semaphore(self) -> asyncio.Semaphore:
        """The turns of the loop that runs; after a fork that is another one."""
        loop = asyncio.get_running_loop()
        if self._slots is None or self._slots[0] is not loop:
            self._slots = (loop, asyncio.Semaphore(self._max_connections))
        return self._slots[1]


def _problem(text: object, finish_reason: str | None, *, called_tool: bool) -> str:
    if called_tool:
        return "called a tool instead of answering with text"
    if finish_reason == "length":
        return "answered more than its limit of tokens allows; the text is cut off"
    if finish_reason == "content_filter":
        return "was stopped by a content filter"
    if not isinstance(text, str) or not text.strip():
        return "gave an empty answer"
    if len(text) > MAX_ANSWER:
        return f"answered with {len(text):,} characters; expected at most {MAX_ANSWER:,}"
    return ""


def _pause(error: openai.APIError, attempt: int) -> float | None:
    """Seconds until the request may be sent again, or None if that is of no use."""
    import openai

    if isinstance(error, openai.APIStatusError):
        status = error.status_code
        if status not in _TRANSIENT and status < 500:
            return None
        headers = getattr(error, "litellm_response_headers", None) or error.response.headers  # LiteLLM keeps them apart
        requested_pause = _retry_after(headers.get("retry-after"))
        if requested_pause is not None:
            return requested_pause
    elif not isinstance(error, openai.APIConnectionError):
        return None
    return min(_FIRST_PAUSE * 2.0**attempt, _LONGEST_PAUSE) * random.uniform(0.75, 1.25)  # noqa: S311 - spreads the load


def _retry_after(header: str | None) -> float | None:
    """Seconds, from a number of them or an HTTP date."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _error_message(error: openai.APIError, attempts: int) -> str:
    """What went wrong, for a person."""
    import openai

    tries = f" after {attempts} tries" if attempts > 1 else ""
    if isinstance(error, openai.APIStatusError):
        hint = f"; {_HINTS[error.status_code]}" if error.status_code in _HINTS else ""
        return f"answered HTTP {error.status_code}{tries}{hint}: {_detail(error)}"
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error.__context__
        return f"could not be reached{tries}: {error}" + (f" ({cause})" if cause else "")
    return f"gave what is no answer: {error}"


def _detail(error: openai.APIStatusError) -> str:
    body = error.body
    if isinstance(body, dict):
        return str(body.get("message") or body)
    return str(body or error.message)
