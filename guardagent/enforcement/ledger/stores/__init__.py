"""Ledgers, one per file. The scheme of an address names the file, which has a class `Store(rest of the address)`."""
