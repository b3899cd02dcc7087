"""Proofs about a workflow graph, all linear in its nodes and edges.

The structural checks, each rule on every path as a product of the graph and the rule's automaton, and what holds in
every run however the graph is driven: on that, and on nothing less, a session may rely.
"""
