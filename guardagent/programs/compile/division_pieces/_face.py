"""Division of a large request (the paper's Appendix Q): one program per part, folded into one program file.

partition.py           the partition of the sentences: the model proposes it, the host checks that it covers each once
part_candidate.py      the program of one part: written, tested alone, repaired
folding.py             the programs of all parts in one file, each in its own function
fault_localization.py  the parts at fault for a failure of the folded program
divided_candidate.py   the candidate for the whole request, tested like any other
"""

from guardagent.programs.compile.division_pieces.divided_candidate import DividedCandidate
from guardagent.programs.compile.division_pieces.partition import DIVIDE_ABOVE, MODES, Division, division_of

__all__ = ["DIVIDE_ABOVE", "MODES", "DividedCandidate", "Division", "division_of"]
