"""Without `tools:`, lint notes names that are spelled almost alike, and that nothing else was checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.policy.lint import lint_report

RULES = """version: 1
unlisted: allow
policies:
  - {id: first, temporal: 'forall(refund(amount=a), a <= 100)'}
  - {id: second, temporal: 'before(refund(order_id=o), true, get_order(id=o), true)'}
  - {id: third, temporal: '%s'}
"""


def notes(rule: str, folder: Path, head: str = "") -> tuple[str, ...]:
    """The notes on three rules, the last of which is given; no note is a finding or an open question."""
    (folder / "policies.yaml").write_text(head + RULES % rule)
    report = lint_report(folder / "policies.yaml")
    assert (report.findings, report.undecided) == ((), ())
    return report.notes


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (
            "G(tool:cancel -> O tool:get_oder)",
            "the tools 'get_order' (rule 'second') and 'get_oder' (rule 'third') are",
        ),
        (
            "G(tool:cancel -> O tool:getOrder)",
            "the tools 'get_order' (rule 'second') and 'getOrder' (rule 'third') are",
        ),
        (
            "forall(refund(ammount=a), a > 0)",
            "arguments 'amount' (rule 'first') and 'ammount' (rule 'third') of 'refund'",
        ),
        ("forall(f:refund(), args(f).amuont > 0)", "arguments 'amount' (rule 'first') and 'amuont' (rule 'third')"),
    ],
)
def test_names_that_are_spelled_almost_alike_are_noted(rule: str, names: str, tmp_path: Path) -> None:
    """With both rules; then comes the line on what was not checked."""
    near, unchecked = notes(rule, tmp_path)
    assert names in near
    assert "has no 'tools:'" in unchecked


@pytest.mark.parametrize(
    "rule",
    [
        "G(tool:cancel -> O tool:set_order)",
        "G(tool:cancel -> O tool:get_orders)",
        "forall(refund(amount2=a), a > 0)",
        "forall(pay(ammount=a), a > 0)",
    ],
)
def test_other_words_plurals_and_numbers_are_names_of_their_own(rule: str, tmp_path: Path) -> None:
    """Only what was not checked is said."""
    assert len(notes(rule, tmp_path)) == 1


def test_the_tools_of_a_tag_are_alternatives(tmp_path: Path) -> None:
    """A host has one of them."""
    assert len(notes("forall(@shell(), false)", tmp_path, "tags: {shell: [bash, Bash, run_shell, runShell]}\n")) == 1


def test_a_local_time_without_a_zone_is_noted(tmp_path: Path) -> None:
    counter = "counters: {c: {on: refund(), key: date(now)}}\n"
    *_, note = notes("forall(refund(), weekday(now) < 6)", tmp_path, counter)
    assert note.startswith("'third', counter 'c': reads a local time")
    assert note.endswith('weekday(now, "Europe/Berlin")')
    solver = "{smt: (assert true), tools: {refund: {permit: (< h 20), variables: {h: {sort: Int, from: hour(now)}}}}}"
    (tmp_path / "solver.yaml").write_text(f"version: 1\npolicies: [{{id: solved, solver: {solver}}}]\n")
    assert any(note.startswith("'solved': reads") for note in lint_report(tmp_path / "solver.yaml").notes)
    assert len(notes('forall(refund(), weekday(now, "Europe/Berlin") < 6)', tmp_path)) == 1


def test_with_tools_there_is_nothing_to_note(tmp_path: Path) -> None:
    """A name that they lack is an error when the file is loaded."""
    assert notes("G(tool:get_oder -> O tool:get_order)", tmp_path, "tools: [refund, get_order, get_oder]\n") == ()


def test_a_counter_of_a_misspelt_tool_is_noted(tmp_path: Path) -> None:
    """It never counts, so that its limit holds nobody."""
    head = "counters: {paid: {on: refnud(amount=a), sum: a}}\n"
    near = notes("forall(refund(amount=a), counter(paid) + a <= 100)", tmp_path, head)[0]
    assert "'refund' (rules 'first', 'second' and 'third') and 'refnud' (counter 'paid')" in near
