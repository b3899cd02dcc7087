"""Each store keeps small values by kind, tenant and name, for all servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from guardagent.errors import InputError, StateError
from guardagent.server.state import StateStore, open_state
from tests.stores import unavailable


@pytest.fixture
def pair(address: str) -> Iterator[tuple[StateStore, StateStore]]:
    """The same store, as two servers open it."""
    stores = open_state(address), open_state(address)
    yield stores
    for store in stores:
        store.close()


def test_servers_see_the_same_values(pair: tuple[StateStore, StateStore]) -> None:
    first, second = pair
    assert first.add("session", "shop", "a", {"x": [1, "ä"]})
    assert not second.add("session", "shop", "a", {"x": 2})
    session = second.get("session", "shop", "a")
    assert session is not None
    assert (session.value, session.version) == ({"x": [1, "ä"]}, 1)
    assert second.replace("session", "shop", "a", 1, {"x": 3})
    assert not first.replace("session", "shop", "a", 1, {"x": 4})
    assert not first.replace("session", "shop", "b", 1, {"x": 4})
    changed = first.get("session", "shop", "a")
    assert changed is not None
    assert (changed.value, changed.version, changed.number) == ({"x": 3}, 2, session.number)
    second.delete("session", "shop", "a")
    assert first.get("session", "shop", "a") is None


def test_versions_are_those_of_the_names_or_of_all(pair: tuple[StateStore, StateStore]) -> None:
    first, second = pair
    for name in ("a", "b", "c"):
        first.add("approval", "shop", name, {})
        first.add("approval", "bank", f"{name}2", {})
    second.replace("approval", "shop", "b", 1, {"x": 1})
    second.delete("approval", "shop", "c")
    assert second.versions("approval", "shop", ("a", "c", "d")) == {"a": 1}
    assert second.versions("approval", "shop", ()) == {}
    assert second.versions("approval", "shop") == {"a": 1, "b": 2}
    assert second.versions("approval", "inn") == {}


def test_pages_have_the_newest_first(pair: tuple[StateStore, StateStore]) -> None:
    for at in range(5):
        pair[at % 2].add("session", "shop", f"s{at}", {})
        pair[0].add("session", "bank", f"s{at}", {})
        pair[0].add("other", "shop", f"s{at}", {})
    page = pair[1].page("session", "shop", None, 2)
    rest = pair[0].page("session", "shop", page[-1].number, 10)
    assert [entry.name for entry in (*page, *rest)] == ["s4", "s3", "s2", "s1", "s0"]


def test_the_oldest_are_found_and_deleted_for_each_tenant(pair: tuple[StateStore, StateStore]) -> None:
    first, second = pair
    for at in range(5):
        first.add("answer", "shop", f"a{at}", {})
    first.add("answer", "bank", "b", {})
    first.add("other", "inn", "c", {})
    assert sorted(second.tenants("answer")) == ["bank", "shop"]
    page = second.oldest("answer", "shop", 0, 2)
    both_pages = [*page, *second.oldest("answer", "shop", page[-1].number, 2)]
    assert [entry.name for entry in both_pages] == ["a0", "a1", "a2", "a3"]
    second.delete("answer", "shop", *(entry.name for entry in page), "missing")
    second.delete("answer", "shop")
    assert [stored_item.name for stored_item in first.oldest("answer", "shop", 0, 9)] == ["a2", "a3", "a4"]
    assert first.get("answer", "bank", "b") is not None


def test_no_two_names_are_confused(pair: tuple[StateStore, StateStore]) -> None:
    places = [("k", "a:b", "c"), ("k", "a", "b:c"), ("k", "a:", "b:c"), ("k", "a", ":b:c"), ("k:a", "b", "c")]
    for at, place in enumerate(places):
        assert pair[0].add(*place, {"at": at})
    assert [entry.value["at"] for place in places if (entry := pair[1].get(*place)) is not None] == [0, 1, 2, 3, 4]


def test_a_store_that_is_gone_is_an_error(address: str, pair: tuple[StateStore, StateStore]) -> None:
    pair[0].add("session", "shop", "a", {})
    with unavailable(address), pytest.raises(StateError):
        pair[0].get("session", "shop", "a")


def test_an_invalid_address_is_an_input_error() -> None:
    for address in ("nothing", "unknown:x"):
        with pytest.raises(InputError):
            open_state(address)
