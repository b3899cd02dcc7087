"""The review of a translation by a person.

review file + policy file -> entries (dossier) -> dialogue at a terminal | page | status

entry       a sentence with its rules, findings and questions
dossier     a review file, joined with the policy file as it stands now
store       answers and confirmations, saved at once
dialogue    the keys of the reviewer
own_words   an answer that is no choice
terminal    an entry at the terminal
page        the review as an HTML page
status      the open entries, a line each
case_row    a boundary case as three short strings
fragments   quoted words in a sentence, and code in a rule in natural language
"""
