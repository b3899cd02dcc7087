"""The confirmation of drafts by a reader of the document who sees cases and no rule, and the questions to the owner.

cases          the reading of the cases; `disputes` are those that come out otherwise than their author expects
group_reading  the sentences that rules connect; the readings that answers choose, and the open questions
questions      ambiguities and disputed cases as questions, by a call that all rules leave possible; the answers
"""
