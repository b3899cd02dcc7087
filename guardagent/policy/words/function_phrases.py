"""Phrases for the functions of the language; a function that has none is `the result of NAME for (...)`."""

from __future__ import annotations

CONDITIONS: dict[str, tuple[str, str]] = {
    "mentions": ("mentions", "does not mention"),
    "starts_with": ("starts with", "does not start with"),
    "ends_with": ("ends with", "does not end with"),
}
"""Functions of two values that are true or false: the verb, and its negation."""

VALUES: dict[tuple[str, int], str] = {
    ("find", 2): "the matches of {1} in {0}",
    ("links", 1): "the links in {0}",
    ("emails", 1): "the e-mail addresses in {0}",
    ("tokens", 1): "the tokens of {0}",
    ("number", 1): "the number written in {0}",
    ("lower", 1): "the lower-case form of {0}",
    ("abs", 1): "the absolute value of {0}",
    ("min", 1): "the least item of {0}",
    ("max", 1): "the greatest item of {0}",
    ("min", 2): "the least of ({0}, {1})",
    ("max", 2): "the greatest of ({0}, {1})",
    ("keys", 1): "the keys of {0}",
    ("values", 1): "the values of {0}",
    ("time", 1): "the instant {0}",
    ("hour", 1): "the hour of {0}",
    ("hour", 2): "the hour of ({0} in the zone {1})",
    ("minute", 1): "the minute of {0}",
    ("minute", 2): "the minute of ({0} in the zone {1})",
    ("weekday", 1): "the day of the week (1 for Monday to 7 for Sunday) of {0}",
    ("weekday", 2): "the day of the week (1 for Monday to 7 for Sunday) of ({0} in the zone {1})",
    ("date", 1): "the date of {0}",
    ("date", 2): "the date of ({0} in the zone {1})",
}
"""The value of a function for a number of values."""
