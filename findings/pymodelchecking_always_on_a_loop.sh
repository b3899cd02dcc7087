#!/bin/sh
# Version: pyModelChecking 1.3.4
# Source: the package's page: it decides LTL, CTL and CTL* on a Kripke structure. A G p is a formula of all three, with
#   the same meaning.
# Behaviour: in a structure of one state where p holds and whose only edge leads to itself, LTL.modelcheck says that no
#   state satisfies A G p; CTL.modelcheck and CTLS.modelcheck say that the state does. The dual with F is right.
# Output seen:
#   LTL A G p set()
#   CTL A G p {0}
#   CTLS A G p {0}
#   LTL A not F not p set()
#   LTL A F p {0}
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile pyModelChecking==1.3.4
"$folder/venv/bin/python" - <<'PYTHON'
from pyModelChecking import CTL, CTLS, LTL, Kripke

structure = Kripke(S=[0], R=[(0, 0)], L={0: {"p"}})
seen = {}
for logic, formula in ((LTL, "A G p"), (CTL, "A G p"), (CTLS, "A G p"), (LTL, "A not F not p"), (LTL, "A F p")):
    name = logic.__name__.rpartition(".")[2]
    seen[name, formula] = logic.modelcheck(structure, logic.Parser()(formula))
    print(name, formula, seen[name, formula])
assert seen["CTL", "A G p"] == seen["CTLS", "A G p"] == seen["LTL", "A F p"] == {0}
assert seen["LTL", "A G p"] == seen["LTL", "A not F not p"] == set()
PYTHON
