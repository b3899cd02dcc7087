"""Proofs about a workflow graph, all linear in its nodes and edges.

The structural checks; each rule on every path, as a product of the graph and the automaton of the rule; and proofs for
every run, however a host drives the graph. A session relies only on proofs for every run.
"""
