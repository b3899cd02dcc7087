"""The pages of the console, a module for each with a table `PAGES`."""
