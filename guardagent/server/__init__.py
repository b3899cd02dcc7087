"""The guard server: access control, sessions, approvals, HTTP."""
