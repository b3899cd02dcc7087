#!/bin/sh
# Version: google-re2 1.1.20251105, beside re of Python
# Source: the page of google-re2 calls it a drop-in replacement for re, and its list of known differences lacks this;
#   the documentation of re: endpos has the effect of a text that ends there.
# Behaviour: the end of the searched part is not an end for google-re2: `$` and `\b` look at the character behind
#   endpos.
# Output seen:
#   a$ re True google-re2 False
#   a\b re True google-re2 False
#   a re True google-re2 True
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile google-re2==1.1.20251105
"$folder/venv/bin/python" - <<'PYTHON'
import re

import re2

SEEN = {"a$": (True, False), "a\\b": (True, False), "a": (True, True)}
for pattern, expected in SEEN.items():
    results = tuple(bool(module.compile(pattern).search("ab", 0, 1)) for module in (re, re2))
    print(pattern, "re", results[0], "google-re2", results[1])
    assert results == expected
PYTHON
