"""Agents, and what is remembered of their guards (GuardAgent, Section 4.2).

An agent is a folder with a request, a specification and demonstrations. Demonstrations are retrieved by edit
distance, exactly; they are added from guards that were executed, never from labels, and a reviewer confirms those
that matter. A sample of runs can be judged by the other side, a model or a program, and disagreements wait for the
reviewer.
"""
