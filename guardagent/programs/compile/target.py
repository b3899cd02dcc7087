"""The target of a compilation: the guard request with its specification and toolbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from guardagent._support.execution import deny_on_crash
from guardagent.programs.compile.clauses import Clause, clauses_of
from guardagent.programs.program import required_check
from guardagent.programs.program_file import whole_specification
from guardagent.types import Check

if TYPE_CHECKING:
    from guardagent.programs.runtime.required_checks import RequiredCheck
    from guardagent.sandbox.toolbox import Toolbox


@dataclass(frozen=True)
class CompileTarget:
    """One guard request, its specification and its toolbox.

    Attributes:
        required: the checks that the specification's front matter requires.
        data: the values that these checks use.
        name: the name of the known agent; empty for a request from files.
    """

    request: str
    specification: str
    toolbox: Toolbox
    required: Sequence[RequiredCheck] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    @property
    def whole_specification(self) -> str:
        return whole_specification(self.specification, [check.text for check in self.required], self.data)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """The sentences of the request, numbered."""
        return clauses_of(self.request)

    @cached_property
    def required_checks(self) -> tuple[Check, ...]:
        """The required checks, which the host runs itself beside the program."""
        return tuple(deny_on_crash(required_check(one, self.toolbox, self.data)) for one in self.required)
