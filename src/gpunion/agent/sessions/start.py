"""What a session's guest is told of itself."""

from __future__ import annotations

from gpunion.domain.jobs.session import SessionStart


def session_variables(session: SessionStart | None) -> dict[str, str]:
    """GPUNION_SESSION_DIR, where its sockets are looked for, every guest has from its runtime."""
    if session is None:
        return {}
    return {
        "GPUNION_SESSION_KIND": session.kind.value,
        "GPUNION_SESSION_NAME": session.name,
        "GPUNION_SESSION_TOKEN": session.token,
        "GPUNION_SESSION_SSH_KEYS": "\n".join(session.ssh_keys),
    }
