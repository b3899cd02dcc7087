"""What a solver answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["sat", "unsat", "unknown"]


@dataclass(frozen=True, slots=True)
class SolverResult:
    """Whether the constraints can be satisfied.

    Attributes:
        status: "sat", "unsat", or "unknown" where the solver could not tell in its time.
        core: of "unsat": what contradicts itself, without any part that is not needed for that.
        counterexample: values of variables, asked about for every value, with which it is unsatisfiable.
    """

    status: Status
    core: tuple[str, ...] = ()
    counterexample: Mapping[str, Any] | None = None


UNKNOWN = SolverResult("unknown")
