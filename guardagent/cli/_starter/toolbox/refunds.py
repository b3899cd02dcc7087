"""Functions for guards of agents that pay refunds."""


def check_refund(amount: float, role: str, limits: dict[str, float]) -> tuple[bool, dict[str, str]]:
    """Whether a refund is within what a role may pay.

    Args:
        amount: the refund, in euros.
        role: the role of the employee.
        limits: role -> its limit in euros.

    Returns:
        (denied, violations): violations is rule -> message.

    Raises:
        ValueError: the role has no limit, or the amount is not a positive number.
    """
    if role not in limits:
        raise ValueError(f"unknown role {role!r}; known: {', '.join(limits)}")
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not amount > 0:
        raise ValueError(f"the refund is {amount!r}; expected a positive number")
    if amount > limits[role]:
        return True, {"refund limit": f"a {role} may refund at most {limits[role]}, not {amount}"}
    return False, {}


def euros(text: str) -> float:
    """The number of euros in a string such as "480.00 EUR".

    Raises:
        ValueError: the string is not one amount in euros.
    """
    number, _, currency = text.strip().partition(" ")
    if currency != "EUR":
        raise ValueError(f"{text!r} is not an amount; expected one such as '480.00 EUR'")
    return float(number)
