#!/bin/sh
# Version: automata-lib 9.2.0
# Source: the package's documentation on regular expressions: a{n} repeats an expression n times, a{n,m} n to m times.
# Behaviour: a{0} is read as a{0,1}: the automaton accepts a, too. a{0,0} is no other; from a{1} on the numbers hold.
# Output seen:
#   a{0} accepts ['', 'a']
#   a{0,0} accepts ['', 'a']
#   a{1} accepts ['a']
#   a{0,2} accepts ['', 'a', 'aa']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile automata-lib==9.2.0
"$folder/venv/bin/python" - <<'PYTHON'
from automata.fa.nfa import NFA

expected = {"a{0}": ["", "a"], "a{0,0}": ["", "a"], "a{1}": ["a"], "a{0,2}": ["", "a", "aa"]}
for expression, words in expected.items():
    automaton = NFA.from_regex(expression, input_symbols={"a", "b"})
    accepted = [word for word in ("", "a", "aa", "aaa", "b") if automaton.accepts_input(word)]
    print(expression, "accepts", accepted)
    assert accepted == words
PYTHON
