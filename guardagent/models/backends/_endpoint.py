"""The shared base of remote models: bounded connections, one deadline, retries, and errors without secrets."""

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
    404: "expected a model of this endpoint, and a base URL with the path that its documentation gives, often '/v1'",
    429: "too many requests, or no credit left",
}


class Endpoint:
    """Sends requests to one remote model.

    Args:
        name: the model's name in errors.
        timeout: seconds for one answer, including waits and retries.
        retries: the number of retries after a transient failure.
        max_connections: the number of concurrent requests; further ones wait.
    """

    def __init__(self, name: str, *, timeout: float = 120.0, retries: int = 3, max_connections: int = 16) -> None:
        from guardagent.models import require_timeout

        require_timeout(timeout)
        if retries < 0 or max_connections < 1:
            raise InputError(
                "'retries' or 'max_connections' is too small; expected at least 0 retries and at least 1 connection"
            )
        self.name = name
        self.timeout = timeout
        self._retries = retries
        self._max_connections = max_connections
        self._slots: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    async def request(self, send: Callable[[], Awaitable[T]]) -> T:
        """Returns the answer of `send`, retried while its failures are transient.

        Raises:
            ModelError: there was no answer; the message has no secret of the environment.
        """
        import openai  # noqa: F401 - the first import takes a second, which must not count as the endpoint's time

        slots, deadline = self._semaphore(), None
        try:
            async with slots:  # waiting for a slot does not count as the endpoint's time
                deadline = time.monotonic() + self.timeout
                async with asyncio.timeout(self.timeout):
                    return await self._send_with_retries(send, deadline)
        except TimeoutError:
            raise self.error(f"gave no answer within {self.timeout:g} seconds") from None

    def error(self, message: str) -> ModelError:
        """Returns an error of this model: one line, without secrets."""
        return ModelError(self._line(message))

    def unsent(self, message: str) -> UnsentError:
        """Returns the error for a request that cannot be sent."""
        return UnsentError(self._line(message))

    def _line(self, message: str) -> str:
        line = " ".join(scrub(strip_control_characters(message)).split())
        return f"model {self.name!r} {line if len(line) <= _MAX_MESSAGE else line[:_MAX_MESSAGE] + '…'}"

    def completion(self, text: object, finish_reason: str | None, usage: Usage, *, called_tool: bool) -> Completion:
        """Returns the endpoint's answer, with secrets removed.

        Raises:
            AnswerError: it is not a string, or is incomplete.
        """
        from guardagent.models import Completion

        problem = _problem(text, finish_reason, called_tool=called_tool)
        if problem:
            raise AnswerError(f"model {self.name!r} {problem}", usage)
        valid_text = str(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # without lone surrogates
        return Completion(scrub(valid_text), usage)

    async def _send_with_retries(self, send: Callable[[], Awaitable[T]], deadline: float) -> T:
        import openai

        for attempt in range(self._retries + 1):
            try:
                return await send()
            except openai.APIError as error:
                pause = _pause(error, attempt)
                if pause is None or attempt == self._retries:
                    raise self.error(_error_message(error, attempt + 1)) from None
                if time.monotonic() + pause > deadline:
                    late = f"the next attempt would be in {round(pause, 1):g} seconds, after the timeout"
                    raise self.error(f"{_error_message(error, attempt + 1)}; {late}") from None
                await asyncio.sleep(pause)
            except ModelError:
                raise
            except Exception as error:  # noqa: BLE001 - a client library may raise anything on an unreadable answer
                raise self.error(f"gave an unreadable answer ({type(error).__name__}: {error})") from None
        raise AssertionError

    def _semaphore(self) -> asyncio.Semaphore:
        """Returns the semaphore of the running loop; after a fork that is another one."""
        loop = asyncio.get_running_loop()
        if self._slots is None or self._slots[0] is not loop:
            self._slots = (loop, asyncio.Semaphore(self._max_connections))
        return self._slots[1]


def _problem(text: object, finish_reason: str | None, *, called_tool: bool) -> str:
    if called_tool:
        return "called a tool instead of answering with text"
    if finish_reason == "length":
        return "exceeded its token limit; the answer is cut off"
    if finish_reason == "content_filter":
        return "was stopped by a content filter"
    if not isinstance(text, str) or not text.strip():
        return "gave an empty answer"
    if len(text) > MAX_ANSWER:
        return f"answered with {len(text):,} characters; expected at most {MAX_ANSWER:,}"
    return ""


def _pause(error: openai.APIError, attempt: int) -> float | None:
    """Returns the seconds until the next attempt, or None if a retry is of no use."""
    import openai

    if isinstance(error, openai.APIStatusError):
        status = error.status_code
        if status not in _TRANSIENT and status < 500:
            return None
        headers = (
            getattr(error, "litellm_response_headers", None) or error.response.headers
        )  # LiteLLM keeps them separately
        requested_pause = _retry_after(headers.get("retry-after"))
        if requested_pause is not None:
            return requested_pause
    elif not isinstance(error, openai.APIConnectionError):
        return None
    return min(_FIRST_PAUSE * 2.0**attempt, _LONGEST_PAUSE) * random.uniform(0.75, 1.25)  # noqa: S311 - spreads the load


def _retry_after(header: str | None) -> float | None:
    """Returns seconds, from a number or an HTTP date."""
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
    """Returns the cause of a failed request."""
    import openai

    tries = f" after {attempts} attempts" if attempts > 1 else ""
    if isinstance(error, openai.APIStatusError):
        hint = f"; {_HINTS[error.status_code]}" if error.status_code in _HINTS else ""
        return f"answered HTTP {error.status_code}{tries}{hint}: {_detail(error)}"
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error.__context__
        return f"could not be reached{tries}: {error}" + (f" ({cause})" if cause else "")
    return f"gave an unreadable answer: {error}"


def _detail(error: openai.APIStatusError) -> str:
    body = error.body
    if isinstance(body, dict):
        return str(body.get("message") or body)
    return str(body or error.message)
