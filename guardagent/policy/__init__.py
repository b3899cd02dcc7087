"""Policies: temporal rules over the steps of an agent (Agentproof, Section 6.2; Agent-C)."""
