"""One conversation under a policy: sessions, permits, snapshots, joint checks, replanning."""
