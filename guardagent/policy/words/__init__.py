"""Puts rules into plain English: deterministic, from the parsed form.

policy             policies and definitions of a file
rules              formulas
terms              conditions and values
steps              propositional rules
solver             solver rules
scope              the names of calls, variables and items
function_phrases   phrases for the functions of the language
phrases            names, numbers, durations and lists
"""

from guardagent.policy.words.policy import Wording, definitions_in_words, policies_in_words, policy_in_words

__all__ = ["Wording", "definitions_in_words", "policies_in_words", "policy_in_words"]
