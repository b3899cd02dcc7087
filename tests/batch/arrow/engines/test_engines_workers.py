"""An error of a worker reaches the driver as a sentence, whatever the cluster wraps around it."""

from __future__ import annotations

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.batch.arrow.engines import WorkerError, driver_error, marked_errors
from guardagent.errors import InputError, LimitError


@given(st.text())
def test_our_own_message_is_found_in_any_traceback(message: str) -> None:
    """Also if an engine has put the traceback into one of its own."""
    with pytest.raises(WorkerError) as raised, marked_errors():
        raise InputError(message)
    text = f"Job aborted: \tat x.scala\n{''.join(traceback.format_exception(raised.value))} SQLSTATE\n" * 2
    error = driver_error(text, "spark", killed=False)
    assert (type(error), str(error)) == (InputError, str(InputError(message)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "x\nModuleNotFoundError: No module named 'guardagent'\n\tat y",
            "a worker has no Python module 'guardagent'; exp",
        ),
        ("Traceback\n  at\nValueError: odd\n\tat java", "the engine 'ray' failed: ValueError: odd"),
        ("Cluster is gone\n\tat java", "the engine 'ray' failed: Cluster is gone"),
        ("", "the engine 'ray' failed"),
    ],
)
def test_other_errors_are_one_line(text: str, message: str) -> None:
    error = driver_error(text, "ray", killed=False)
    assert str(error).startswith(message)
    assert "\n" not in str(error)


def test_a_killed_worker_is_a_limit() -> None:
    assert isinstance(driver_error("Python worker exited unexpectedly", "spark", killed=True), LimitError)
