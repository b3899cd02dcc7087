"""Agents and their demonstrations: retrieved, added, learnt and reviewed."""
