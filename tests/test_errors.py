import re

from guardagent import errors
from guardagent._support.execution import deny_on_crash
from guardagent.types import Check, Context, Event, Verdict, unchecked_verdict


def test_the_tree_in_the_docstring_is_complete() -> None:
    """Every error class appears under its real parent."""
    drawn: dict[str, str | None] = {}
    open_at: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.search(r"[├└]── (\w+)", line):
            open_at = [item for item in open_at if item[0] < match.start()]
            drawn[match[1]] = open_at[-1][1] if open_at else "GuardError"
            open_at.append((match.start(), match[1]))
    real = {
        name: cls.__mro__[1].__name__
        for name, cls in vars(errors).items()
        if isinstance(cls, type) and issubclass(cls, errors.GuardError) and name != "GuardError"
    }
    assert drawn == real


def test_no_escape_sequence_reaches_a_message() -> None:
    """Colours, titles, links and control characters are removed; line breaks and words stay."""
    text = "\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x07\r\n\tb\x9b1m\x1b]0;open \x1b(B\x00\xe9"
    clean = "red link\n\tb0;open \xe9"
    assert str(errors.ModelError(text)) == str(errors.AnswerError(text)) == clean
    assert errors.error_text(RuntimeError(text)) == f"RuntimeError: {clean}"
    assert str(errors.ContentError(text, "f", 1)) == f"f:1: {clean}"
    verdict = deny_on_crash(crashing(text))(Event("t"), Context())
    assert verdict.errors == unchecked_verdict(f"RuntimeError: {text}").errors == (f"RuntimeError: {clean}",)


def crashing(text: str) -> Check:
    def check(event: Event, context: Context) -> Verdict:
        raise RuntimeError(text)

    return check


def test_an_unknown_name_comes_with_the_nearest() -> None:
    """The message has the name that was probably meant, and all known names."""
    text = str(errors.UnknownNameError("agent", "ehragnet", ["seeact", "ehragent"], where="memory"))
    assert text == "memory: unknown agent 'ehragnet'; did you mean 'ehragent'? known: ehragent, seeact"
    assert errors.name_hint("zzz", []) == "; none is defined"
