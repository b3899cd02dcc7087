"""No attack succeeds: each is run, wrapped into a `check`, on each engine and on the default."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from guardagent.sandbox import engine_names
from tests.attacks.attack import ENGINES, succeeded

OWN = yaml.safe_load((Path(__file__).parent / "attacks.yaml").read_text())
FAMILIES = [
    pytest.param(family, marks=[pytest.mark.slow] if family == "cpu" else [])  # each of them takes all the time it may
    for family in sorted({attack["family"] for attack in OWN})
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_attack_succeeds(family: str, engine: str, tmp_path: Path) -> None:
    """The criterion of success is the attack's own; the host must also stay as it was."""
    attacks = [attack for attack in OWN if attack["family"] == family]
    assert not {attack["name"]: why for attack in attacks if (why := succeeded(attack, engine, tmp_path))}


@pytest.mark.slow
@pytest.mark.parametrize("engine", engine_names())
def test_no_reference_attack_succeeds(engine: str, tmp_path: Path, shared: Path) -> None:
    """The same for the programs of the reference data."""
    attacks: list[dict[str, Any]] = json.loads((shared / "sandbox" / "escapes.json").read_text())
    assert len(attacks) > 50
    assert not {attack["name"]: why for attack in attacks if (why := succeeded(attack, engine, tmp_path))}


def test_the_attacks_would_succeed_without_a_sandbox() -> None:
    """What the suite looks for is there to be found: in a bare interpreter, harmless ones of them do find it."""
    bare: dict[str, Any] = {}
    exec("result = [c for c in ().__class__.__base__.__subclasses__()]", bare)  # noqa: S102
    assert len(bare["result"]) > 80
