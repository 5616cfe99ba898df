"""The keeper of a container that may begin as a dump: `python -m ... <guest_dir> <fd>`.

Brought back, the container is made by this machine's own words as any other: limits, user, mounts. Of the
dump come the processes alone, and it is checked afterwards that they are shut in like any guest's.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from pathlib import Path

from gpunion.adapters.runtimes.containers.cgroup import container_cgroup
from gpunion.adapters.runtimes.containers.container_command import EngineTrouble
from gpunion.adapters.runtimes.containers.keeper import STRIKE_PAUSE_S, Keeping, NotStarted
from gpunion.adapters.runtimes.keeper.begin import begin
from gpunion.adapters.runtimes.keeper.names import LAUNCH_FILE
from gpunion.adapters.runtimes.keeper.output_log import Log
from gpunion.adapters.runtimes.podman.bind_mounts import staged
from gpunion.adapters.runtimes.podman.confinement_check import not_confined
from gpunion.adapters.runtimes.podman.criu_errors import complaint_in
from gpunion.adapters.runtimes.podman.criu_options import only_cgroup, tell_criu
from gpunion.adapters.runtimes.podman.opening import Opening, opening
from gpunion.files import read_json
from gpunion.owner_kill.guest import members, strike
from gpunion.owner_kill.processes import cgroup_pids

# In a dump, and Podman's names for them (`dumping` has them too, and more imports than a keeper needs).
IMAGES_DIR, SHARED_MEMORY_FILE = "images", "shm.tar"
PODMAN_IMAGES, PODMAN_SHARED_MEMORY, RESTORE_LOG = "checkpoint", "devshm-checkpoint.tar", "restore.log"
SHARED_MEMORY_DIR = "shm"


def main(argv: list[str]) -> int:
    answer_fd = begin(argv)
    if answer_fd is not None:
        PodmanKeeping(argv[0]).run(answer_fd)
    return 0


class PodmanKeeping(Keeping):
    def __init__(self, guest_dir: str) -> None:
        super().__init__(guest_dir)
        launch = read_json(os.path.join(guest_dir, LAUNCH_FILE)) or {}
        restore = launch.get("restore")
        self._restore = restore if isinstance(restore, dict) else None
        self._opened: Opening | None = None  # while a guest is brought back

    def _start(self) -> tuple[int, Log]:
        if self._restore is None:
            return super()._start()
        with opening() as opened, staged(str(self._restore["stage"]), list(self._restore["sources"])):
            self._opened = opened
            return super()._start()

    def _bring_up(self) -> None:
        if self._restore is None:
            super()._bring_up()
            return
        home = self._make_home(int(self._restore["root_id"]))
        self._lay_out(home, Path(str(self._restore["dump"])))
        try:
            words = ("container", "restore", "--file-locks")
            limit_s = float(str(self._restore["limit_s"]))
            self._engine.call(*words, self._container, limit_s=limit_s)
        except EngineTrouble as trouble:
            raise NotStarted(complaint_in(home / RESTORE_LOG) or str(trouble)) from trouble
        self._look_at_what_came(int(self._restore["host_id"]))

    def _look_at_what_came(self, host_id: int) -> None:
        first, inside = self._engine.state_of(self._container).pid, cgroup_pids(self._cgroup)
        if first and first not in inside:
            self._first = os.pidfd_open(first)  # it is ended by that: its cgroup does not know it
            raise NotStarted("what came out of the dump is outside of its cgroup, where no limit holds it")
        why = not_confined(inside, host_id)
        if why:
            raise NotStarted(f"what came out of the dump is not shut in: {why}")

    def _make_home(self, root_inside: int) -> Path:
        """Podman restores into a container that has been there: it is made, and ended at its gate.

        Its cgroup is known and written down before anything of the guest runs."""
        self._engine.call("init", self._container)
        record = json.loads(self._engine.call("inspect", "--type", "container", self._container))[0]
        first = int(record["State"]["Pid"])
        self._cgroup = container_cgroup(first, str(record["Id"]))
        tell_criu(self._guest_dir, only_cgroup(first))
        home = Path(str(record["StaticDir"]))
        bound = [str(record.get(name, "")) for name in ("HostnamePath", "HostsPath", "ResolvConfPath")]
        assert self._opened is not None
        self._opened.reach([*bound, str(home / SHARED_MEMORY_DIR)], root_inside)
        self._introduce()
        self._engine.call("stop", "--time", "0", self._container)
        return home

    def _lay_out(self, home: Path, dump: Path) -> None:
        """CRIU reads them from inside the guest's user namespace, before and after it becomes its root.

        Podman's directory for the container, which nobody else may enter, is what guards them."""
        images = home / PODMAN_IMAGES
        shutil.rmtree(images, ignore_errors=True)
        shutil.move(dump / IMAGES_DIR, images)
        with contextlib.suppress(FileNotFoundError):
            shutil.move(dump / SHARED_MEMORY_FILE, home / PODMAN_SHARED_MEMORY)
        os.chmod(images, 0o755)
        for path in images.iterdir():
            os.chmod(path, 0o644)

    def _open_gate(self) -> None:
        if self._restore is None:
            super()._open_gate()  # a guest that was brought back is long past it

    def _end_everything(self) -> None:
        # What was brought back may run before it is held by its first process.
        while self._restore is not None and self._first < 0 and members(self._guest_dir):
            strike(self._guest_dir, keeper_too=False)
            time.sleep(STRIKE_PAUSE_S)
        super()._end_everything()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
