#!/bin/sh
# Version: pydantic-monty 1.4.0
# Source: its docs/limitations/re.md: most patterns behave identically; the engines differ in syntax extensions, empty
#   matches and error reporting. The documentation of re: \w matches all characters for which str.isalnum() is true, and
#   the underscore.
# Behaviour: \w and \b go by another table. ½ and ² are no word there, though str.isalnum() says so in Monty, too; an
#   accent after a letter and the undertie belong to a word.
# Output seen:
#   ½ isalnum True Monty [] CPython ['½']
#   m² isalnum True Monty ['m'] CPython ['m²']
#   é isalnum False Monty ['é'] CPython ['e']
#   a‿b isalnum False Monty ['a‿b'] CPython ['a', 'b']
#   aé isalnum True Monty ['aé'] CPython ['aé']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile pydantic-monty==1.4.0
"$folder/venv/bin/python" - <<'PYTHON'
import re

import pydantic_monty as monty

CASES = {"½": [], "m²": ["m"], "e\u0301": ["e\u0301"], "a\u203fb": ["a\u203fb"], "aé": ["aé"]}
PROGRAM = "import re\n[[text.isalnum(), re.findall(r'\\w+', text)] for text in texts]"
with monty.Monty() as pool, pool.checkout() as session:
    results = session.feed_run(PROGRAM, inputs={"texts": [*CASES]})
for (text, expected), (is_word, words) in zip(CASES.items(), results):
    print(text, "isalnum", is_word, "Monty", words, "CPython", re.findall(r"\w+", text))
    assert words == expected
    assert is_word == text.isalnum()
PYTHON
