"""Finds what is wrong with rules themselves: those that allow nothing, or everything, or that another one says too.

    finding     what is found
    lint_report     looks at a policy file with every check
    subject     the policy file that is looked at, of which nothing is run
    steps       what its rules make of the order of steps: automata together
    implied     which of them another one implies
    forms       what rules over data say of the order of steps
    data        what they say else, asked of Z3
    solvers     what its solver rules say, asked of Z3
    together    what several of these say of one call
    mixed       what rules over data say of one, in their terms
    contradictory_steps, contradictory_data, contradictory_solver     of tools that can never be called
    same        what is said of two rules of which one implies the other
    severity    which of two rules decides
    words       examples in words
    checks/     one file per check; what stands in there is what is done

No finding is made without a proof, and none without an example; what could not be decided is said beside the findings.
"""

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.report import LintReport, lint, lint_report

__all__ = ["LintFinding", "LintReport", "lint", "lint_report"]
