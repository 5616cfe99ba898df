"""The campus that is attacked: real processes on loopback, with honest nodes and jobs, and what is theirs.

Whether an attack got through is judged here, by looking at what belongs to others before and after it.
"""

from __future__ import annotations

import itertools
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from gpunion.cli.demo.campus import Lab
from gpunion.vault import manifests
from tests.attack.hostile import Hostile
from tests.system.scene import PATIENT, Scene

HONEST = ("a", "b", "c")
SECRET = "SECRET-OF-THE-VICTIM"
# What no honest run here comes to: further than that is a lie that was believed.
FAR_STEP = 10**6
FORGED = "forged.json"
ID = re.compile(r"(?P<run>.+)-[ca](?P<number>\d+)$|(?P<out>.+)-output$")
LONG = 10**9


@dataclass(slots=True)
class Ground:
    scene: Scene
    victims: dict[str, str]  # what each is called here, and its job
    evil: Hostile  # has one guest of its own
    former: Hostile  # had a run of the job that is "moved" now
    left: Hostile  # has left the campus
    used_token: str
    sentinel: Path

    @classmethod
    def open(cls, root: Path) -> Ground:
        scene = Scene.open(root, HONEST[:2], timing=PATIENT)
        sentinel = root / "not-theirs"
        sentinel.mkdir()
        (sentinel / "file").write_text(SECRET)
        victims = {}
        for name in ("victim", "bystander"):
            victims[name] = _long_job(scene, ["TEST"])
            scene.until(victims[name], "saved", lambda job: job["durable"] is not None)
        with scene.campus.client() as client:
            used = client.make_join_token()["join_token"]
        former = Hostile.enrol(scene.campus, "former", "FORMER", token=used)
        former.connect()
        victims["moved"] = _long_job(scene, ["TEST", "FORMER"])
        former.starts_what_it_is_given()
        scene.campus.join(Lab(name="c", lab="C", model="TEST", memory_gib=8, speed=1.0))
        scene.campus.start_agent("c")
        former.gives_its_guest_up()
        former.model = "GONE"  # else the job comes home to it, as it should
        scene.until(
            victims["moved"], "moved", lambda job: job["node_id"] == "c" and job["durable"] is not None
        )
        evil = Hostile.enrol(scene.campus, "evil", "EVIL")
        evil.connect()
        _long_job(scene, ["EVIL"])
        evil.starts_what_it_is_given()
        left = Hostile.enrol(scene.campus, "left", "LEFT")
        left.connect()
        left.leaves()
        return cls(scene, victims, evil, former, left, used, sentinel)

    @property
    def figures_token(self) -> str:
        return (self.scene.campus.data_dir / "metrics.token").read_text().strip()

    # --- what is not theirs ----------------------------------------------------------------------

    def seen(self) -> dict[str, Any]:
        """All of it that stays as it is while nobody does harm."""
        campus = self.scene.campus
        found: dict[str, Any] = {"the coordinator lives": campus.coordinator.poll()}
        if campus.coordinator.poll() is not None:
            return found
        for name in HONEST:
            found[f"agent {name} lives"] = campus.agent(name).poll()
        with campus.client() as client:
            for name, job_id in self.victims.items():
                found |= {f"{name}: {what}": value for what, value in self._of_job(client, job_id).items()}
            nodes = {node["id"]: node for node in client.nodes(all=True)}
            for name in HONEST:
                found[f"node {name}"] = (nodes[name]["phase"], nodes[name].get("isolated_because"))
            jobs = {job["id"]: job["name"] for job in client.all_jobs()}
            found["jobs"] = sorted(jobs)
            found["quotas"], found["images"] = client.quotas()["quotas"], client.images()
            found["violations"] = client.audit()["violations"]
        found["files"] = sorted((path.name, path.read_text()) for path in self.sentinel.iterdir())
        return found

    def _of_job(self, client: Any, job_id: str) -> dict[str, Any]:
        job, live = client.job(job_id), None
        live = job["live"] or {"step": 0}
        durable = job["durable"] or {"step": 0, "checkpoint_id": ""}
        return {
            "as it runs": (job["phase"], job["epoch"], job["node_id"], job["exit_code"]),
            "runs": [run["id"] for run in job["runs"]],
            "told step is possible": live["step"] < FAR_STEP,
            "durable step is possible": durable["step"] < FAR_STEP,
            "durable is its own": str(durable).count(f"{job_id}-e") > 0,
            "in the vault": self._of_vault(job_id, job["epoch"]),
            "its log": _only_beats(client.logs(job_id)["text"]),
        }

    def _of_vault(self, job_id: str, epoch: int) -> str:
        """Empty where all that is sealed there can be what the honest sealed."""
        shelf = self.scene.campus.vault_dir / "jobs" / job_id
        if (begun := (shelf / "epoch.json").read_text()) and f'"epoch": {epoch}' not in begun:
            return f"another epoch has begun: {begun}"
        found = list((shelf / "manifests").glob("*.json"))
        if not found:
            return "all checkpoints are gone"
        for path in found:
            try:
                manifest = manifests.decode(path.read_bytes())
            except FileNotFoundError:
                continue  # an old one, forgotten meanwhile
            if manifest.step >= FAR_STEP or any(file.path == FORGED for file in manifest.files):
                return f"{path.name} is forged"
        return ""

    def harm_since(self, before: dict[str, Any]) -> list[str]:
        now = self.seen()
        names = [*before, *(name for name in now if name not in before)]
        return [
            f"{name} was {str(before.get(name))[:200]}, is {str(now.get(name))[:200]}"
            for name in names
            if before.get(name) != now.get(name)
        ]

    # --- what they know --------------------------------------------------------------------------

    def forged(self, job_id: str, **changes: Any) -> bytes:
        """A manifest that is whole and checks, with another's content in it."""
        shelf = self.scene.campus.vault_dir / "jobs" / self.victims["bystander"] / "manifests"
        for path in sorted(shelf.glob("*.json"), reverse=True):
            true = manifests.decode(path.read_bytes())
            files = tuple(replace(file, path=FORGED) for file in true.files)
            return manifests.encode(replace(true, job_id=job_id, files=files, **changes))
        raise AssertionError("the bystander has no checkpoint")

    def a_block(self) -> str:
        blocks = (path for path in (self.scene.campus.vault_dir / "blocks").glob("*/*") if path.is_file())
        return next(itertools.chain((path.name for path in blocks), iter(["0" * 64])))

    def answers_within(self, seconds: float) -> str:
        """Empty where somebody else's request is answered in time."""
        began_s = time.monotonic()
        try:
            headers = {"Authorization": f"Bearer {self.scene.campus.token}"}
            url = f"{self.scene.campus.url}/api/v1/nodes"
            httpx.get(url, headers=headers, timeout=seconds, trust_env=False)
        except httpx.HTTPError as error:
            return f"others got no answer within {seconds} s ({type(error).__name__})"
        took_s = time.monotonic() - began_s
        return "" if took_s < seconds else f"others waited {took_s:.1f} s"

    def accept_all(self) -> None:
        """The operator lifts isolations, so that attacks go on."""
        headers = {"Authorization": f"Bearer {self.scene.campus.token}"}
        for hostile in (self.evil, self.former):
            url = f"{self.scene.campus.url}/api/v1/nodes/{hostile.node_id}/accept"
            httpx.post(url, headers=headers, timeout=30.0, trust_env=False)

    def close(self) -> None:
        for hostile in (self.evil, self.former, self.left):
            hostile.close()
        self.scene.close()


def _only_beats(log: str) -> bool:
    """A page of it may end within a line."""
    whole = log.split("\n")[:-1]
    return all(line.startswith("beat ") for line in whole) and SECRET not in log


def _long_job(scene: Scene, models: list[str]) -> str:
    wish = {"gpus": 1, "cpus": 0.1, "memory": "64MiB", "models": models}
    return scene.submit(steps=LONG, step_s=0.1, every_s=1.0, resources=wish)
