"""Stores for many demonstrations: one module per store, each with a class `Store(address)`."""
