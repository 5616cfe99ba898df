"""The page that Prometheus reads: made at most every few seconds, whoever asks and however often."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from gpunion.coordinator.metrics import series
from gpunion.ports.metrics import Metrics, Sample

# Nobody needs it fresher: a scrape every second then costs what one every five seconds does.
FRESH_S = 5.0
LAG_LOOKED_AT_S = 1.0


class MetricsPage:
    def __init__(
        self,
        metrics: Metrics,
        now: Callable[[], Iterable[Sample]],
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now` reads memory and so belongs to the event loop; the text is made beside it."""
        self.media_type = metrics.media_type
        self._metrics = metrics
        self._now = now
        self._elapsed_s = elapsed_s
        self._text = b""
        self._made_s: float | None = None
        self._one_at_a_time = asyncio.Lock()

    async def text(self) -> bytes:
        """Raises NoMetrics."""
        async with self._one_at_a_time:
            if self._made_s is None or self._elapsed_s() - self._made_s >= FRESH_S:
                self._text = await asyncio.to_thread(self._metrics.page, self._now())
                self._made_s = self._elapsed_s()
            return self._text

    async def keep_watching_lag(self) -> None:
        """Until cancelled: whatever keeps the event loop from going on keeps this from waking up."""
        while True:
            began_s = self._elapsed_s()
            await asyncio.sleep(LAG_LOOKED_AT_S)
            self._metrics.observe(series.LAG, self._elapsed_s() - began_s - LAG_LOOKED_AT_S)
