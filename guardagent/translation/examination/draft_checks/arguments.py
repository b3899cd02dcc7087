"""The check of arguments."""

from guardagent.translation.examination.checks import check

__all__ = ["check"]
