"""The engines that run guard programs, a file each."""
