"""The routes of the interface, a module for each resource with a table `ROUTES`."""
