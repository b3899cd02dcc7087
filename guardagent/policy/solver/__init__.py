"""Solver rules: SMT-LIB 2 constraints that decide whether a call is permitted."""
