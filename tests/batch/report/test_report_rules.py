"""The rules of a manifest."""

from pathlib import Path

from guardagent import load_policies
from guardagent.batch.report import rules_for_report
from tests.shop import write_policies


def test_each_rule_has_a_message_and_its_order(tmp_path: Path) -> None:
    """A rule without a message has its text."""
    rows = rules_for_report(load_policies(write_policies(tmp_path)))
    assert rows[0] == {"id": "login_first", "message": "log in first", "on_violation": "deny", "order": True}
    assert [row["order"] for row in rows] == [True, False, False, False, False]
    assert rows[-1]["message"] == "the rule is: forall(buy(item=i), state(stock(i)) > 0)"
