"""The result of a solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["sat", "unsat", "unknown"]


@dataclass(frozen=True, slots=True)
class SolverResult:
    """The result of a satisfiability check.

    Attributes:
        status: "sat", "unsat", or "unknown" if the solver could not decide within its time limit.
        core: a minimal unsatisfiable core, if "unsat".
        counterexample: values of the universally quantified variables for which the constraints are unsatisfiable.
    """

    status: Status
    core: tuple[str, ...] = ()
    counterexample: Mapping[str, Any] | None = None


UNKNOWN = SolverResult("unknown")
