"""The review of a translation by a person.

    review file + policy file -> entries (dossier) -> dialogue at a terminal | page | status

dossier   the entries, and the store of answers and confirmations
dialogue  the review at a terminal
page      the status of a review, and the review as an HTML page
"""
