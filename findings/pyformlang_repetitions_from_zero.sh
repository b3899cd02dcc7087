#!/bin/sh
# Version: pyformlang 1.0.11
# Source: the documentation of PythonRegex: a regular expression as in Python, with repetitions {m} and {n,m}.
# Behaviour: a zero is read as a one and moves the upper end with it: a{0,1} accepts a and aa, and not the empty word.
#   a{2,} is no repetition but its own five characters. Neither raises MisformedRegexError, and re reads them otherwise.
# Output seen:
#   a{0}: ['a'], re: ['']
#   a{0,1}: ['a', 'aa'], re: ['', 'a']
#   a{2,}: ['a{2,}'], re: ['aa', 'aaa']
#   a{1,2}: ['a', 'aa'], re: ['a', 'aa']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile pyformlang==1.0.11
"$folder/venv/bin/python" - <<'PYTHON'
import re

from pyformlang.regular_expression import PythonRegex

words = ["", "a", "aa", "aaa", "a{2,}"]
seen = {}
for pattern in ("a{0}", "a{0,1}", "a{2,}", "a{1,2}"):
    accepted = [word for word in words if PythonRegex(pattern).accepts(list(word))]
    matched = [word for word in words if re.fullmatch(pattern, word)]
    seen[pattern] = (accepted, matched)
    print(f"{pattern}: {accepted}, re: {matched}")
assert seen["a{0}"] == (["a"], [""])
assert seen["a{0,1}"] == (["a", "aa"], ["", "a"])
assert seen["a{2,}"] == (["a{2,}"], ["aa", "aaa"])
assert seen["a{1,2}"] == (["a", "aa"], ["a", "aa"])
PYTHON
