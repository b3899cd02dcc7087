"""The checks of a draft, one per file: a generator `check(examined)` of problems. Every file in this folder is run.

`NEVER_FATAL = True` says that a check has no fatal problem: it is left out where only those are wanted. `WHOLE_POLICY =
True` says that it is of the assembled policy: `examined` is an `ExaminedPolicy`, and no draft is checked.
"""

from guardagent._support.plugins import Plugins

CHECKS = Plugins("translation check", __name__, ("check",), group="guardagent.translation_checks")
