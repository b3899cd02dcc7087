#!/bin/sh
# Version: ortools 9.15.6755
# Source: the docstrings of CpModel: add_no_overlap ensures that intervals do not overlap in time, add_cumulative that at no
#   time the demands exceed the capacity, from the start of an interval up to its end, which is left out. So an interval of
#   size zero takes no time, and with demands and capacity of 1 both say the same of one machine.
# Behaviour: an interval of size zero inside another one breaks add_no_overlap, so a milestone cannot lie within a task;
#   add_cumulative allows it. At the ends of the task, and with another one of size zero, it is allowed by both.
# Output seen:
#   at 2 in [0, 5]: no_overlap INFEASIBLE, cumulative OPTIMAL
#   at 5 in [0, 5]: no_overlap OPTIMAL, cumulative OPTIMAL
#   at 2 in [2, 2]: no_overlap OPTIMAL, cumulative OPTIMAL
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile ortools==9.15.6755
"$folder/venv/bin/python" - <<'PYTHON'
from ortools.sat.python import cp_model


def status(at, start, size, constrain):
    model = cp_model.CpModel()
    task = model.new_fixed_size_interval_var(start, size, "task")
    milestone = model.new_fixed_size_interval_var(at, 0, "milestone")
    constrain(model, [task, milestone])
    solver = cp_model.CpSolver()
    return solver.status_name(solver.solve(model))


def no_overlap(model, intervals):
    model.add_no_overlap(intervals)


def cumulative(model, intervals):
    model.add_cumulative(intervals, [1, 1], 1)


cases = {(2, 0, 5): ("INFEASIBLE", "OPTIMAL"), (5, 0, 5): ("OPTIMAL", "OPTIMAL"), (2, 2, 0): ("OPTIMAL", "OPTIMAL")}
for (at, start, size), expected in cases.items():
    seen = status(at, start, size, no_overlap), status(at, start, size, cumulative)
    print(f"at {at} in [{start}, {start + size}]: no_overlap {seen[0]}, cumulative {seen[1]}")
    assert seen == expected
PYTHON
