"""Solver rules: what SMT-LIB 2 constraints say of a call."""
