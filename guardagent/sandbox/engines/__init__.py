"""The engines that run guard programs, one per file."""
