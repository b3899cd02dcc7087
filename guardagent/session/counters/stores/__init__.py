"""The stores of counters: one file each, named after the scheme of its addresses, with `Store(rest of the address)`."""
