"""Proofs about a workflow graph: structural checks, rules on every path, reports."""
