"""Resource limits of the process: no core files, no file contents written, few descriptors, bounded memory and time."""

from __future__ import annotations

from guardagent.sandbox.hardening import Profile


def problem() -> str:
    try:
        import resource  # noqa: F401
    except ImportError:
        return "this system has no resource limits; run on Linux or macOS"
    return ""


def apply(profile: Profile) -> None:
    limit("RLIMIT_CORE", 0)
    limit("RLIMIT_FSIZE", 0)
    limit("RLIMIT_NOFILE", profile.files)
    if profile.memory_bytes:
        limit("RLIMIT_AS", profile.memory_bytes)


def limit(name: str, value: int) -> None:
    """Lowers one limit permanently; a limit that is lower already stays."""
    import resource

    which = getattr(resource, name)
    _, hard = resource.getrlimit(which)
    bounded = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (bounded, bounded))
