"""Random identifiers."""

import os

from guardagent._support.files import random_id


def test_identifiers_are_unique() -> None:
    """Also where more are read from the operating system."""
    random_ids = [random_id() for _ in range(1000)]
    assert len(set(random_ids)) == 1000
    assert all(len(random_id) == 16 and int(random_id, 16) >= 0 for random_id in random_ids)


def test_a_forked_process_has_others() -> None:
    """Both would otherwise go on with the same ones."""
    random_id()
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, random_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 16).decode() != random_id()
