"""The stores of a server's state, a module for each scheme of addresses."""
