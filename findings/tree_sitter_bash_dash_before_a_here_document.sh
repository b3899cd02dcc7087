#!/bin/sh
# Version: tree-sitter-bash 0.25.1 with tree-sitter 0.25.2
# Source: the Bash manual, "Simple Commands" and "Redirections": words before a redirection are arguments of the
#   command; `<>` opens a file for reading and writing.
# Behaviour: an argument `-` is a word of the tree before `<` and `<<<`, but is in no node before a here-document,
#   with no error in the tree; `<>` is an error.
# Output seen:
#   cat - < f -> (['cat', '-', '<', 'f'], False)
#   cat - <<E -> (['cat', '<<', 'E', 'x\n', 'E'], False)
#   cat <> f -> error: True
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile tree-sitter-bash==0.25.1 tree-sitter==0.25.2
"$folder/venv/bin/python" - <<'PYTHON'
import tree_sitter_bash
from tree_sitter import Language, Parser


def read(text):
    root = Parser(Language(tree_sitter_bash.language())).parse(text.encode()).root_node
    leaves, nodes = [], [root]
    while nodes:
        node = nodes.pop()
        nodes += reversed(node.children)
        leaves += [] if node.children else [node.text.decode()]
    return leaves, root.has_error


print("cat - < f ->", read("cat - < f\n"))
print("cat - <<E ->", read("cat - <<E\nx\nE\n"))
print("cat <> f -> error:", read("cat <> f\n")[1])
assert "-" in read("cat - < f\n")[0]
leaves, error = read("cat - <<E\nx\nE\n")
assert "-" not in leaves and not error
assert read("cat <> f\n")[1]
PYTHON
