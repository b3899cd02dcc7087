import re

from guardagent import errors


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    """Every error class is drawn, and under its real parent."""
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


def test_an_unknown_name_comes_with_the_nearest() -> None:
    """A misspelt name is answered with the one that was probably meant, and with all there are."""
    text = str(errors.UnknownNameError("agent", "ehragnet", ["seeact", "ehragent"], where="memory"))
    assert text == "memory: unknown agent 'ehragnet'; did you mean 'ehragent'? known: ehragent, seeact"
    assert errors.nearest("zzz", []) == "; none is defined"
