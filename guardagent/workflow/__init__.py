"""Workflow graphs: extracted from an agent's framework, and proved safe before it is deployed (Agentproof)."""
