"""The play with parking: the owner computes, the guest stands still in memory, and goes on where it stood."""

from __future__ import annotations

import time
from typing import Any

from gpunion.cli.demo.campus import LocalCampus
from tests.gpu.scene import NODE, OwnWork, Scene


class ParkScene(Scene):
    def _acts(self, campus: LocalCampus, job: str, idle_bytes: int) -> None:
        self._owner_comes(campus, job, idle_bytes)
        self._guest_goes_on(campus, job)

    def _open(self, campus: LocalCampus) -> None:
        self.agreed = f"park = true\nallow_unsandboxed = {str(self.props.unsandboxed).lower()}\n"
        super()._open(campus)

    def _owner_comes(self, campus: LocalCampus, job: str, idle_bytes: int) -> None:
        before_bytes = self.props.used_bytes()
        self._owner = OwnWork(self.props.owner, self.props.owner_environment)
        try:
            self._until("the agent yields", lambda: self._gpu()["withheld"])
            yielded_s = time.time()
            self._until("the GPU is the owner's", lambda: self._gpu()["withheld"]["phase"] == "reclaimed")
            free_s = time.time()
            self._step = self._reached(campus, job)
            time.sleep(1.0)
            still = self._reached(campus, job) == self._step
            self.found["park"] = {
                "gpu_free_after_yield_s": round(free_s - yielded_s, 3),
                "used_before_bytes": before_bytes,
                "used_while_parked_bytes": self.props.used_bytes(),
                "idle_bytes": idle_bytes,
                "guest_stood_still": still,
            }
        finally:
            self._owner.end()

    def _guest_goes_on(self, campus: LocalCampus, job: str) -> None:
        gone_s = time.time()
        self._until("the guest goes on", lambda: self._reached(campus, job) > self._step + 5)
        self.found["park"]["goes_on_after_owner_left_s"] = round(time.time() - gone_s, 3)
        detail = campus.client().job(job)
        story = [line["sentence"] for line in campus.client().why(job).get("story", [])]
        self.found["park"]["epoch"] = detail["epoch"]
        self.found["park"]["told_to_the_job"] = [line for line in story if "memory" in line]

    def _reached(self, campus: LocalCampus, job: str) -> int:
        """As the program itself says, in its own file."""
        del campus
        for path in self._state_dir.glob(f"guests/{job}-e*/control/progress.json"):
            text = path.read_text()
            return int(text.partition('"step":')[2].partition(",")[0] or 0)
        return 0


def verdicts(found: dict[str, Any]) -> dict[str, bool]:
    park = found["park"]
    return {
        "guest_stood_still_while_parked": park["guest_stood_still"],
        "guest_went_on_as_the_same_run": park["epoch"] == 1,
        "the_story_says_so": len(park["told_to_the_job"]) == 2,
    }


__all__ = ["NODE", "ParkScene", "verdicts"]
