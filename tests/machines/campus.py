"""A coordinator and two lenders, each on a machine of its own, installed as the pages for people say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.machines.lab import Lab, Machine, eventually

CHECKOUT = Path(__file__).resolve().parents[2]
JOB = CHECKOUT / "tests" / "system" / "beating_job.py"
OPERATOR_S_PAGE = CHECKOUT / "docs" / "coordinator.md"
UNIT = CHECKOUT / "deploy" / "systemd" / "gpunion-coordinator.service"
GPUNION = "gpunion"  # an owner's, as their shell finds it
OPERATOR_S = "/opt/gpunion-campus/bin/gpunion"
PORT = 8765
MEMORY_BYTES = 200 * 1024**2


class CampusOfMachines:
    def __init__(self, lab: Lab) -> None:
        self.hub = lab.machine("hub", "bookworm")
        # Before systemd 254 an agent shares its cgroup with others; since then it has one of its own.
        self.old = lab.machine("old", "bookworm")
        self.new = lab.machine("new", "trixie")
        self.lenders = {machine.name: machine for machine in (self.old, self.new)}

    def open(self) -> None:
        machines = (self.hub, *self.lenders.values())
        for machine in machines:
            machine.switch_on()
        for machine in machines:
            machine.until_up()
        self._start_coordinator()
        with ThreadPoolExecutor() as at_once:
            list(at_once.map(self._lend, self.lenders.values()))
        eventually(lambda: self.phases() == {"old": "sharing", "new": "sharing"}, "both lend")

    def _lend(self, lender: Machine) -> None:
        token = self.hub.do(f"{OPERATOR_S} coordinator token -q --data /srv/gpunion").strip()
        words = f"--token {token} --lab {lender.name} --gpu A100:80GB --notice 20s"
        lender.do(f"curl -fsS http://{self.hub.address}:{PORT}/install.sh | sh -s -- {words}")

    def _start_coordinator(self) -> None:
        wheels = self.hub.lab.folder / "wheels"
        pip = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation"]
        subprocess.run([*pip, "--wheel-dir", str(wheels), str(CHECKOUT)], check=True, capture_output=True)
        [wheel] = wheels.glob("*.whl")
        self.hub.put(wheel, "/srv/wheels/")
        page = OPERATOR_S_PAGE.read_text(encoding="utf-8")
        commands = re.findall(r"^```\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[0]
        self.hub.do(f"cd /srv/wheels\n{commands}")  # where the wheel lies that the page installs
        listening = UNIT.read_text(encoding="utf-8").replace("127.0.0.1:", "0.0.0.0:")
        self.hub.write("/etc/systemd/system/gpunion-coordinator.service", listening)
        self.hub.do("systemctl enable --now gpunion-coordinator")
        eventually(lambda: self.hub.ask("test -s /srv/gpunion/address").returncode == 0, "it listens")
        self.hub.do(f"{OPERATOR_S} login http://127.0.0.1:{PORT} --token $(cat /srv/gpunion/admin.token)")
        self.hub.do("mkdir /srv/job")
        self.hub.put(JOB, "/srv/job/beat.py")

    # --- the campus, as its operator sees it -----------------------------------------------------

    def gpunion(self, words: str) -> Any:
        done = self.hub.ask(f"{OPERATOR_S} {words} --json")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def phases(self) -> dict[str, str]:
        return {node["id"]: node["phase"] for node in self.gpunion("nodes").get("nodes", [])}

    def submit(self) -> str:
        """A job that beats twice a second for hours, and says how far it is."""
        needs = f"--gpus 1 --cpus 0.5 --memory {MEMORY_BYTES} --checkpoint-every 5s"
        command = f"{OPERATOR_S} submit -q {needs} -- python3 beat.py 100000 0.5"
        job = self.hub.do(f"cd /srv/job && {command}").strip()
        eventually(lambda: self.durable(job) > 0, "something of it is durable")
        return job

    def stop(self, job: str) -> None:
        self.hub.do(f"{OPERATOR_S} stop {job}")

    def job(self, job: str) -> dict[str, Any]:
        found = [each for each in self.gpunion("ps").get("jobs", []) if each["id"] == job]
        return found[0] if found else {}

    def durable(self, job: str) -> int:
        return int((self.job(job).get("durable") or {}).get("step", 0))

    def where(self, job: str) -> Machine | None:
        """Who runs it at the moment."""
        found = self.job(job)
        return self.lenders.get(found["node_id"]) if found.get("phase") == "running" else None

    def host_of(self, job: str) -> Machine:
        eventually(lambda: self.where(job), "it runs somewhere")
        host = self.where(job)
        assert host is not None
        return host

    def other(self, machine: Machine) -> Machine:
        return self.new if machine is self.old else self.old

    def story(self, job: str) -> list[str]:
        return [told["sentence"] for told in self.gpunion(f"why {job}").get("story", [])]


def guests_on(machine: Machine) -> list[str]:
    """Process numbers of the programs that beat there."""
    found = machine.ask("pgrep -x python3 -a | grep ' beat.py' | cut -d' ' -f1")
    return found.stdout.split()
