#!/bin/sh
# Version: python-jsonpath 2.2.2, beside jsonpath-rfc9535 1.0.1, both by one author
# Source: RFC 9535, "Comparisons": < and > hold between two numbers or two strings, and of values of other types they are
#   false. The README of python-jsonpath says that it follows the RFC, and offers strict=True for no more than that.
# Behaviour: a boolean is less than a number or more, also with strict=True: a filter on prices selects an item whose
#   price is true. At least 1 it is not, since == tells a boolean from a number. jsonpath-rfc9535 selects numbers alone.
# Output seen (of true, 5, false and "5"):
#   $[?@ <= 10] [True, 5, False], strict [True, 5, False], jsonpath-rfc9535 [5]
#   $[?@ > 0] [True, 5], strict [True, 5], jsonpath-rfc9535 [5]
#   $[?@ >= 1] [5], strict [5], jsonpath-rfc9535 [5]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile "python-jsonpath[strict]==2.2.2" jsonpath-rfc9535==1.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import jsonpath
import jsonpath_rfc9535

strict = jsonpath.JSONPathEnvironment(strict=True)
VALUES = [True, 5, False, "5"]
for query, expected in {"$[?@ <= 10]": [True, 5, False], "$[?@ > 0]": [True, 5], "$[?@ >= 1]": [5]}.items():
    lenient = jsonpath.findall(query, VALUES)
    other = [node.value for node in jsonpath_rfc9535.find(query, VALUES)]
    print(f"{query} {lenient}, strict {strict.findall(query, VALUES)}, jsonpath-rfc9535 {other}")
    assert lenient == strict.findall(query, VALUES) == expected
    assert other == [5]
PYTHON
