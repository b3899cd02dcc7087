"""Agents, and the memory of their guards (GuardAgent, Section 4.2).

An agent is a folder with a request, a specification and demonstrations. Retrieval finds demonstrations by exact edit
distance. New ones come from executed guards, never from labels, after review. The other side, a model or a program, can
judge a sample of runs again, and disagreements are pending for review.
"""
