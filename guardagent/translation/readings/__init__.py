"""Two independent drafts of the same sentences: proved to say the same, or turned into questions to the owner.

group_reading  the sentences that rules connect; the rules that stand, the open questions, the drafts to mend
questions      the differences of two drafts, part by part, as questions; the answers, and whether a draft keeps them
"""
