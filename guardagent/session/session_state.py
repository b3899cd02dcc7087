"""The parts of a session: its rules, its conversation, its principal and who else learns of its calls."""

from __future__ import annotations

import datetime as dt
import math
import secrets
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from guardagent.errors import InputError
from guardagent.policy.evaluation.monitor_interface import Clock, ClockError, HostClock, SessionCall
from guardagent.policy.language.values import seconds_of
from guardagent.policy.monitors.conversation import ConversationState, Judgement
from guardagent.policy.policies import Applicability, Policies
from guardagent.policy.provenance.recorder import LIMIT as PROVENANCE_BYTES
from guardagent.session.shared_history import Journal
from guardagent.types import EMPTY, freeze
from guardagent.types.values import SessionPrincipal, read_principal

if TYPE_CHECKING:
    from guardagent.session.counters import CounterStore, SessionCounters
    from guardagent.session.shadow import OnDifference, SessionShadow

PERMIT_SECONDS = 300.0


class SessionState:
    """The parts of a session, without its operations; see `Session`."""

    def __init__(
        self,
        policies: Policies,
        state: Any = None,
        facts: Mapping[str, Any] = EMPTY,
        *,
        messages: Any = (),
        id: str | None = None,  # noqa: A002 - what it is
        permit_seconds: float = PERMIT_SECONDS,
        clock: HostClock = time.time,
        zone: dt.tzinfo | str | None = None,
        journal: Journal | None = None,
        provenance_bytes: int = PROVENANCE_BYTES,
        counters: CounterStore | str | None = None,
        principal: Mapping[str, Any] | SessionPrincipal | None = None,
        on_behalf_of: Mapping[str, Any] | SessionPrincipal | None = None,
        on_difference: OnDifference | Literal[False] | None = None,
    ) -> None:
        if not isinstance(facts, Mapping):
            raise InputError(f"'facts' has the type {type(facts).__name__!r}; expected a mapping of names to values")
        self.policies = policies
        self.id = id or secrets.token_hex(8)
        self._facts: Mapping[str, Any] = freeze(facts)
        self._clock = Clock(clock, zone)
        self.principal = read_principal(principal, on_behalf_of)
        self._principal = None if self.principal is None else self.principal.value
        self._conversation = ConversationState(
            policies,
            state,
            self._facts,
            messages,
            self._clock,
            provenance_bytes=provenance_bytes,
            principal=self._principal,
        )
        self._provenance_bytes = provenance_bytes
        self._halted: str | None = None
        self._approved = 0
        self._permit_seconds = permit_seconds
        self._lock = threading.RLock()
        self._journal = journal
        self._counters: SessionCounters | None = None
        if policies.counters:
            from guardagent.session.counters import SessionCounters

            self._counters = SessionCounters.of(policies, counters, self._now, self.id)
        self._conversation.context.counters = self._counters
        self._lapsed: list[SessionCall] = []  # withdrawn after their permits expired, and not recorded since
        self._lapses_reported = 0  # the number of them that `lapsed` has returned
        self._mementos: list[Any] | None = None  # of a fork: the mementos of its trial calls
        self._claims: dict[str, int] = {}  # the id of a claimed call -> its place, for the calls read so far
        self._claims_read = 0
        self._barred: set[str] = set()  # ids that were withdrawn before they were claimed
        self._is_followed = journal is not None or self._counters is not None  # whether others learn of the calls
        self._shadow: SessionShadow | None = None
        if policies.shadow is not None and on_difference is not False:
            from guardagent.session.shadow import SessionShadow, log_difference

            self._shadow = SessionShadow(policies.shadow, self.id, self._facts, on_difference or log_difference)
            self._is_followed = True

    def _now(self) -> float:
        """The time of the check in seconds, for the counters; not a number if it is unknown."""
        moment = self._conversation.context.reading()[0]
        return math.nan if moment is None else float(seconds_of(moment))

    @property
    def check_time(self) -> tuple[int, str | None] | None:
        """The time of the last check in microseconds, and the zone of the clock; None if the time is unknown."""
        try:
            moment, zone = self._conversation.context.reading()
        except ClockError:
            return None
        return None if moment is None else (moment, zone)

    def _principal_of(self, principal: Mapping[str, Any] | SessionPrincipal | None) -> Mapping[str, Any] | None:
        """The principal of a call, as rules read it.

        Raises:
            InputError: it is invalid, or has more than the session's.
        """
        part = read_principal(principal)
        if part is None:
            return self._principal
        if self.principal is None:
            raise InputError(
                f"principal {part.id!r} of the call has none to narrow; expected a principal of the session"
            )
        return self.principal.narrowed(part).value

    def _judge(self, call: SessionCall, applicability: Applicability) -> Judgement | None:
        if self._halted is None:
            return self._conversation.judge(call, applicability)
        judgement = Judgement()
        judgement.fail(f"the session was halted by {self._halted}")
        return judgement

    def _follow(self) -> None:
        """Lets the candidate follow the calls of this session."""
        if self._shadow is not None:
            self._shadow.follow(self._conversation.calls, self._conversation.context.state_now)
