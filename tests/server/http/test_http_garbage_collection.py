"""Full collections are rare while a server runs."""

from __future__ import annotations

import gc
import time
import weakref

from guardagent.server.http import rare_full_collections


class Node:
    """An object in a cycle."""

    def __init__(self) -> None:
        self.me = self


def test_old_cycles_are_collected_once_in_a_while_and_settings_come_back() -> None:
    before = gc.get_threshold()
    with rare_full_collections(0.05):
        assert gc.get_threshold()[2] > 10_000
        node = Node()
        gone = weakref.ref(node)
        gc.collect(1)  # now it is old
        del node
        for _ in range(100):
            if gone() is None:
                break
            time.sleep(0.05)
        assert gone() is None
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
