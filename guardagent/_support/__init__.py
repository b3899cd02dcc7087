"""General helpers of any program: files and locks, strict JSON, parsing Python, interrupts."""
