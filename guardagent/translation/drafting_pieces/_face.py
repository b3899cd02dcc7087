"""Drafts: the rules that a model writes for some sentences of a document.

draft   the types of a draft and its problems
"""
