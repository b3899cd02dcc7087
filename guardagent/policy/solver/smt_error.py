"""What is wrong in SMT-LIB text."""

from __future__ import annotations

from guardagent.errors import InputError


class SmtError(InputError):
    """Something in SMT-LIB text is wrong.

    Attributes:
        problem: what is wrong, what was expected, what to do.
        line: where, counted from 1; of the permit's own text where `of_permit`.
        column: the place in that line, counted from 1.
    """

    def __init__(self, problem: str, line: int = 1, column: int = 1, *, of_permit: bool = False) -> None:
        super().__init__(f"{'permit: ' * of_permit}line {line}, column {column}: {problem}")
        self.problem, self.line, self.column, self.of_permit = problem, line, column, of_permit
