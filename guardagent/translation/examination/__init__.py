"""The checks of a draft, and of the assembled policy, before anybody reads them.

examination  runs the checks of a draft
examined     a draft under examination, loaded as far as it loads
loading      finds every rule and declaration that does not load
schemas      schemas of the places that rules read
records      the boundary cases of a rule, judged
assembled    the checks of the assembled policy
executions   recorded calls that the policy denies
checks       the check of arguments
draft_checks/  one file per check of a draft; every file in it is run
"""

from guardagent.translation.examination.assembled import examine_policy
from guardagent.translation.examination.examination import examine

__all__ = ["examine", "examine_policy"]
