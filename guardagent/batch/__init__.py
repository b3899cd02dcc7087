"""Many runs at once: cases, traces, audits, in parallel, with results that survive."""
