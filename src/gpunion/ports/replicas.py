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
        """Bring all that any of a job's places has sealed of it to each of them. Blocks.

        A VaultFault where nothing can be told. May be repeated after a crash at any point."""
        ...
