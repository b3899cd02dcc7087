"""The error for invalid SMT-LIB text."""

from __future__ import annotations

from guardagent.errors import InputError


class SmtError(InputError):
    """SMT-LIB text is invalid.

    Attributes:
        problem: the problem, what was expected and what to do.
        line: its line, counted from 1; a line of the permit's text if `of_permit`.
        column: its column in that line, counted from 1.
    """

    def __init__(self, problem: str, line: int = 1, column: int = 1, *, of_permit: bool = False) -> None:
        super().__init__(f"{'permit: ' * of_permit}line {line}, column {column}: {problem}")
        self.problem, self.line, self.column, self.of_permit = problem, line, column, of_permit
