"""The hosts, a module for each with a class `Host`."""
