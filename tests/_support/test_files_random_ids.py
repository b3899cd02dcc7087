"""Random identifiers."""

import os

from guardagent._support.files import random_id


def test_identifiers_are_unique() -> None:
    """Also where more are read from the operating system."""
    found = [random_id() for _ in range(1000)]
    assert len(set(found)) == 1000
    assert all(len(one) == 16 and int(one, 16) >= 0 for one in found)


def test_a_forked_process_has_others() -> None:
    """Both would otherwise go on with the same ones."""
    random_id()
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, random_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 16).decode() != random_id()
