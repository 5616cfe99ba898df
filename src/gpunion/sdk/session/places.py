"""Where things are in the guest of a session."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# A kernel's sockets have names like `kernel-<36 characters>-ipc-5`, in a folder of this length at most.
RUNTIME_PATH_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """`files` is what the user works in. It is the job's output, so each save has it, and the end of the job
    too; what `work` held, which travelled here, is put there once."""

    sockets: Path
    control: Path
    checkpoints: Path
    files: Path
    work: Path
    own: Path  # what the session needs for itself
    runtime: Path  # sockets of kernels
    resumes: bool
    token: str
    ssh_keys: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Places:
        sockets = Path(environment["GPUNION_SESSION_DIR"])
        runtime = sockets / "jupyter"
        if len(bytes(runtime)) > RUNTIME_PATH_MAX:  # no sandbox, and a state directory deep in the disk
            runtime = Path(tempfile.mkdtemp(prefix="gpunion-", dir="/tmp"))
        return cls(
            sockets=sockets,
            control=Path(environment["GPUNION_CONTROL_DIR"]),
            checkpoints=Path(environment["GPUNION_CHECKPOINT_DIR"]),
            files=Path(environment["GPUNION_OUTPUT_DIR"]),
            work=Path.cwd(),
            own=sockets.parent / "session",
            runtime=runtime,
            resumes=environment.get("GPUNION_RESUME") == "1",
            token=environment.get("GPUNION_SESSION_TOKEN", ""),
            ssh_keys=environment.get("GPUNION_SESSION_SSH_KEYS", ""),
        )

    @property
    def kept(self) -> Path:
        """Of its own things, those that go along with each save: JupyterLab's settings, the host key."""
        return self.own / "kept"

    @property
    def left_behind(self) -> Path:
        """Among the files, where a session that ends puts its variables."""
        return self.files / ".gpunion-session"

    def take_up(self) -> None:
        """The folder of a session that has ended: a new one goes on with its variables."""
        if not self.resumes and self.left_behind.is_dir() and not any(self.checkpoints.glob("step-*")):
            shutil.move(self.left_behind, self.checkpoints / "step-0")

    def make(self) -> None:
        for folder in (self.sockets, self.own, self.kept, self.runtime):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def bring_files(self) -> None:
        """Of a session that begins: what travelled here becomes what its user works in."""
        if self.resumes or any(self.files.iterdir()):
            return
        mode = self.files.stat().st_mode
        shutil.copytree(self.work, self.files, symlinks=True, dirs_exist_ok=True)
        self.files.chmod(mode)  # a dump is refused where the folder it is in has another one there
