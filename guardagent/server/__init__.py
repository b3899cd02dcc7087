"""A guard for a whole company: who may do what on a server."""
