"""Audits over tables."""
