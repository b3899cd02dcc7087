"""Where many demonstrations are kept: one file per store, each with a class `Backend(address)`."""
