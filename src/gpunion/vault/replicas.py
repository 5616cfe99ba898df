"""The port to what makes the places of a job alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    copied: tuple[str, ...] = ()  # checkpoints, each once for every place it came to
    sent_bytes: int = 0
    troubles: Mapping[str, str] = field(default_factory=dict)  # of places that do not have everything now


class Replicas(Protocol):
    def complete(
        self,
        job_id: str,
        places: tuple[str, ...],
        *,
        pace: Callable[[int], None],
        cancelled: Callable[[], bool],
    ) -> Completed:
        """Bring each of a job's places what any of them has sealed of it. Blocks.

        All that is newer than its own newest; of the rest what is among the newest that are kept, since it
        may have forgotten others.

        A VaultFault where nothing can be told. May be repeated after a crash at any point."""
        ...
