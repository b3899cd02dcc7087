"""The checks, one in each file: a generator `check(subject)` of findings. A file that is put here takes part."""

from guardagent._support.plugins import Plugins

CHECKS = Plugins("lint check", __name__, ("check",), group="guardagent.checks")
