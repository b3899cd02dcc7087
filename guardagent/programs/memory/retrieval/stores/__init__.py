"""Where many demonstrations are kept: one file per store, each with a class `Store(address)`."""
