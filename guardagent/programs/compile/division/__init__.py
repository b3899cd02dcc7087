"""Division of a large request (the paper's Appendix Q): code for each part of it, folded into one program file.

parts.py    which sentences belong together: the model says, the host checks that each has its place, once
part.py     the program of one part: written, tried alone, mended
folding.py  the programs of all parts in one file, each in a function of its own
faults.py   which part is at fault where the whole file is wrong about a run
divided.py  the candidate that comes of it; it is tried as any other
"""

from guardagent.programs.compile.division.divided_candidate import DividedCandidate
from guardagent.programs.compile.division.partition import DIVIDE_ABOVE, MODES, Division, division_of

__all__ = ["DIVIDE_ABOVE", "MODES", "DividedCandidate", "Division", "division_of"]
