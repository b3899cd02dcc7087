"""Small changes of a rule that change its meaning, for tests of a policy's cases.

mutant        a mutant, and the mutants of one policy
generation    the mutants of a policy
rules         changes of formulas
conditions    changes of conditions and values
steps         changes of propositional rules
constraints   changes of solver rules
scopes        changes of `applies_to:`
differences   the changed words of two sentences
equivalence   whether a mutant means the same as its rule
"""

from guardagent.policy.mutants_pieces.generation import mutants_of
from guardagent.policy.mutants_pieces.mutant import Mutant, Mutants

__all__ = ["Mutant", "Mutants", "mutants_of"]
