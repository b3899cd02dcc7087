"""Finds faulty rules: contradictory, vacuous, redundant and under-constrained ones.

    finding              a finding
    report               runs every check on a policy file
    target              the policy file under check, of which nothing is run
    steps                the order of steps: search in products of automata
    implication          implications between rules about steps
    step_formulas        formulas about steps that data rules imply
    data_rules           data rules, with Z3
    solver_cases         solver rules, with Z3
    joint_solver_rules   several solver rules for one call
    data_constraints     data rules in the terms of a solver rule
    *_contradictions     tools that can never be called
    forbidden_calls      rules about calls that other rules forbid
    required_calls       required calls that other rules forbid
    scopes               one scope within another
    open_patterns        patterns as conditions
    minimal_set          the rules that a finding needs
    redundancy           findings for duplicate and shadowed rules
    severity             the precedence of two rules
    descriptions         examples in natural language
    checks/              one file per check; every file in it is run

Every finding is proved and has an example. Questions that could not be decided are reported separately.
"""

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.report import LintReport, lint, lint_report

__all__ = ["LintFinding", "LintReport", "lint", "lint_report"]
