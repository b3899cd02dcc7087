"""No attack succeeds: each runs, wrapped into a `check`, on each engine and on the default."""

import json
from pathlib import Path
from typing import Any

import pytest

from guardagent.sandbox import engine_names
from tests.attacks.attack import ATTACKS, ENGINES, succeeded

COSTLY = ("cpu", "memory")  # each of these attacks takes all the time or the memory that it may
FAMILIES = [
    pytest.param(family, marks=[pytest.mark.slow] if family in COSTLY else [])
    for family in sorted({attack["family"] for attack in ATTACKS})
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_attack_succeeds(family: str, engine: str, tmp_path: Path) -> None:
    """Each attack has its own criterion of success; the host must also stay unchanged.

    The default engine is one of the others for each program, so it gets some of the attacks.
    """
    attacks = [attack for attack in ATTACKS if attack["family"] == family][:: 5 if engine == "auto" else 1]
    assert not {attack["name"]: why for attack in attacks if (why := succeeded(attack, engine, tmp_path))}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("family", COSTLY)
def test_no_costly_attack_succeeds(family: str, engine: str, tmp_path: Path) -> None:
    """Some of each family, for the quick tier."""
    attacks = [attack for attack in ATTACKS if attack["family"] == family][::17]
    assert not {attack["name"]: why for attack in attacks if (why := succeeded(attack, engine, tmp_path))}


@pytest.mark.slow
@pytest.mark.parametrize("engine", engine_names())
def test_no_reference_attack_succeeds(engine: str, tmp_path: Path, shared: Path) -> None:
    """The programs of the reference data succeed neither."""
    attacks: list[dict[str, Any]] = json.loads((shared / "sandbox" / "escapes.json").read_text())
    assert len(attacks) > 50
    assert not {attack["name"]: why for attack in attacks if (why := succeeded(attack, engine, tmp_path))}


def test_the_attacks_would_succeed_without_a_sandbox() -> None:
    """A harmless attack reaches its target in a plain interpreter, so the criteria are meaningful."""
    bare: dict[str, Any] = {}
    exec("result = [c for c in ().__class__.__base__.__subclasses__()]", bare)  # noqa: S102
    assert len(bare["result"]) > 80
