"""The checks of other packages run beside the shipped ones, each where its flags place it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from guardagent.translation import examination
from guardagent.translation.examination import examine, examine_policy
from guardagent.translation.examination.checks import CHECKS
from tests._support.plugin_package import register
from tests.translation.examination.shop import context, draft

CHECK = """
from guardagent.translation.drafts import Problem
{flag} = True


def check(examined):
    yield Problem("acme", "{flag}")
"""


def test_checks_of_other_packages_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of whole policies sees no draft, and one that is never fatal is left out with the others."""
    for flag in ("NEVER_FATAL", "WHOLE_POLICY"):
        (tmp_path / f"acme_{flag.lower()}.py").write_text(CHECK.format(flag=flag))
    monkeypatch.syspath_prepend(tmp_path)
    register(tmp_path, "acme", {"tests.draft_checks": {"one": "acme_never_fatal", "two": "acme_whole_policy"}})
    monkeypatch.setattr(examination, "CHECKS", replace(CHECKS, group="tests.draft_checks"))
    policy = json.dumps({**context().frame, "policies": [{"id": "a", "temporal": "G !tool:cancel"}]})
    every, fatal = (examine(draft(), replace(context()), only_fatal=only_fatal) for only_fatal in (False, True))
    assert [[problem.message for problem in draft_problems] for draft_problems in (every, fatal)] == [
        ["NEVER_FATAL"],
        [],
    ]
    messages = [problem.message for problem in examine_policy(policy, context(), {}) if problem.kind == "acme"]
    assert messages == ["WHOLE_POLICY"]
