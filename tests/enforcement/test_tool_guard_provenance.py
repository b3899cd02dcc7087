"""The bound on the seen values of a conversation is the guard's to set."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent import InputError, load_policies
from guardagent.enforcement import HostCall, ToolGuard
from tests.enforcement.guards import ran

POLICY: dict[str, Any] = {
    "version": 1,
    "labels": {"untrusted": "page"},
    "policies": [{"id": "known", "temporal": 'forall(send(to=r), !("untrusted" in sources(r)))'}],
}


@pytest.mark.parametrize(("options", "label"), [({}, 0), ({"provenance_bytes": 1000}, 1)])
def test_what_does_not_fit_is_unknown(options: dict[str, Any], label: int) -> None:
    one = ToolGuard(load_policies(data=POLICY), **options)
    ran(one, HostCall("page", {}, "c"), "eve@evil.example " * 100)
    verdict = one.before(HostCall("send", {"to": "ann@corp.example"}, "c"))
    assert (verdict.label, any("provenance_bytes" in error for error in verdict.errors)) == (label, bool(label))


@pytest.mark.parametrize("bound", [-1, 1.5, "16 MB", True])
def test_the_bound_is_checked_when_the_guard_is_built(bound: Any) -> None:
    with pytest.raises(InputError, match=r"^provenance_bytes is .*; expected an integer"):
        ToolGuard(load_policies(data=POLICY), provenance_bytes=bound)
