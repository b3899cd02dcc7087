"""The lint checks, one per file: a generator `check(target)` of findings. Every file in this folder is run."""

from guardagent._support.plugins import Plugins

CHECKS = Plugins("lint check", __name__, ("check",), group="guardagent.checks")
