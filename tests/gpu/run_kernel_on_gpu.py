"""Parks a real Jupyter kernel with tensors on the GPU for its owner and has it go on; prints JSON.

    python3 tests/gpu/run_kernel_on_gpu.py --wheels DIR [--out FILE] [--gib 4]

Needs Python 3.12, PyTorch and driver 570 or newer; no network, nothing installed. DIR holds what
`tools/gpu-wheels DIR kernel` fetched elsewhere. What it does, with an ipykernel and Jupyter's own client:

- a cell puts a model, its optimizer and a large tensor on the GPU and trains a few steps;
- while another cell is computing on the GPU the kernel is parked as an agent does it (the driver moves its
  memory to the host, then it is frozen), and what it left of the card is asked of the driver;
- another process, the owner's, fills the card and computes; then it goes;
- the kernel gets its memory back; the cell ends, and the next one goes on with the same bits;
- its variables are saved by groups and brought back in a second kernel, tensors on the card among them.

Exit status 0: all of it was seen. `--rehearse` plays it on the CPU and proves nothing of a driver.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from gpunion.adapters import cuda  # noqa: E402
from tests.gpu.run_on_gpu import PREPARED, again_with  # noqa: E402

GIB = 1024**3
PARK_LIMIT_S = 60.0
CELL_LIMIT_S = 120.0
PARKED_MAX_BYTES = 64 * 1024 * 1024  # a context that is away keeps a few MiB at most

BEGIN = """
import torch, hashlib
device = {device!r}
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
ballast = torch.arange({bytes} // 4, dtype=torch.int32, device=device)
steps = 0
def step():
    global steps
    x = torch.randn(256, 512, device=device)
    loss = (model(x) - x.sum(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step(); steps += 1
    return loss.item()
def digest():
    words = hashlib.blake2b()
    for tensor in [*model.state_dict().values(), *(v for s in optimizer.state.values() for v in s.values())]:
        words.update(tensor.detach().cpu().numpy().tobytes())
    return words.hexdigest()[:16]
for _ in range(20): step()
lines = (number for number in range(5)); next(lines)
print(digest(), int(ballast.sum() % 1000003))
"""
LONG_CELL = """
import time
for number in range(60):
    step(); time.sleep(0.05)
    print(number)
"""
OWNER = """
import torch, time
free, total = torch.cuda.mem_get_info()
x = torch.ones(int(free * 0.9) // 4, device="cuda"); x += 1; torch.cuda.synchronize()
print("owner", round(x.numel() * 4 / 2**30, 1), "GiB", x[-1].item())
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheels", type=Path, help="the folder with the wheels (where none are installed)")
    parser.add_argument("--out", type=Path, help="write the JSON here as well")
    parser.add_argument("--gib", type=float, default=4.0, help="how much lies on the GPU beside the model")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, with a stopped process")
    arguments = parser.parse_args()
    if not arguments.rehearse and not os.path.exists("/dev/nvidiactl"):
        print("skipped: there is no NVIDIA driver on this machine")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpunion-kernel-", dir="/tmp") as folder:
        if PREPARED not in os.environ:
            return again_with(arguments.wheels, Path(folder))
        answer = show(Path(folder), gib=arguments.gib, rehearse=arguments.rehearse)
    text = json.dumps(answer, indent=2)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    return 0 if all(answer["verdicts"].values()) else 1


def show(folder: Path, *, gib: float, rehearse: bool) -> dict[str, Any]:
    play = Play(folder, gib=gib, rehearse=rehearse)
    found: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "python": sys.version.split()[0]}
    try:
        found |= play.parked() | play.variables()
    finally:
        play.close()
    found["verdicts"] = {
        "the cell that ran goes on: all of its lines came, in order": found["lines_in_order"],
        "the bits on the card are the same": found["same_bits"],
        "the card was the owner's meanwhile": rehearse or found["used_parked_bytes"] <= PARKED_MAX_BYTES,
        "the generator of the notebook goes on": found["generator_next"] == "1",
        "training goes on": found["steps_after"] == found["steps_before"] + 1,
        "variables with tensors on the card come back in another kernel": found["variables_same"],
        "what cannot be saved is told by name": found["unsaved"] == ["lines"],
    }
    return found


class Play:
    def __init__(self, folder: Path, *, gib: float, rehearse: bool) -> None:
        self._folder, self._rehearse = folder, rehearse
        self._device = "cpu" if rehearse else "cuda"
        self._bytes = int(gib * GIB)
        self._kernels: list[Kernel] = []

    def parked(self) -> dict[str, Any]:
        kernel = self._kernel()
        begun = kernel.run(BEGIN.format(device=self._device, bytes=self._bytes))
        used_bytes = self._used_bytes(kernel.pid)
        long_cell = kernel.begin(LONG_CELL)
        kernel.printed(long_cell, 5)
        began_s = time.monotonic()
        if not self._rehearse:
            cuda.park([kernel.pid], PARK_LIMIT_S)
        os.kill(kernel.pid, signal.SIGSTOP)
        park_s = time.monotonic() - began_s
        try:
            used_parked_bytes = self._used_bytes(kernel.pid)
            owner = self._owner()
        finally:
            os.kill(kernel.pid, signal.SIGCONT)
        began_s = time.monotonic()
        if not self._rehearse:
            cuda.unpark([kernel.pid], PARK_LIMIT_S)
        back_s = time.monotonic() - began_s
        lines = kernel.result(long_cell).split()
        first_answer_s = time.monotonic() - began_s
        before = int(kernel.run("print(steps)"))
        kernel.run("step()")
        after = int(kernel.run("print(steps)"))
        ballast = kernel.run("print(int(ballast.sum() % 1000003))").strip()
        return {
            "used_bytes": used_bytes,
            "used_parked_bytes": used_parked_bytes,
            "park_s": round(park_s, 3),
            "owner": owner,
            "back_s": round(back_s, 3),
            "cell_done_after_s": round(first_answer_s, 3),
            "lines_in_order": lines == [str(number) for number in range(60)],
            "same_bits": ballast == begun.split()[1],
            "generator_next": kernel.run("print(next(lines))").strip(),
            "steps_before": before,
            "steps_after": after,
        }

    def variables(self) -> dict[str, Any]:
        from gpunion.sdk.session.variables import in_kernel
        from gpunion.sdk.session.variables.snapshot import read_about

        old, snapshot = self._kernels[0], self._folder / "snapshot"
        snapshot.mkdir()
        digest = old.run("print(digest(), int(ballast.sum() % 1000003), ballast.device.type)")
        began_s = time.monotonic()
        words = {
            "into": str(snapshot),
            "older": "",
            "limit_s": 60.0,
            "until": time.time() + 60,
            "beside": False,
        }
        old.run(in_kernel.line("save", **words))
        save_s = time.monotonic() - began_s
        about = read_about(snapshot)
        assert about is not None
        old.close()
        new, answer = self._kernel(), self._folder / "loaded.json"
        began_s = time.monotonic()
        new.run(in_kernel.line("load", folder=str(snapshot), answer=str(answer)))
        load_s = time.monotonic() - began_s
        same = new.run("print(digest(), int(ballast.sum() % 1000003), ballast.device.type)")
        # The optimizer drives the model itself, not a copy: its parameters are the model's.
        pairs = "zip(optimizer.param_groups[0]['params'], model.parameters())"
        own = new.run(f"step(); print(all(a is b for a, b in {pairs}))")
        return {
            "saved_bytes": about.size_bytes,
            "save_s": round(save_s, 3),
            "load_s": round(load_s, 3),
            "variables_same": same == digest and own.strip() == "True",
            "unsaved": sorted(one.name for one in about.unsaved),
            "loaded": json.loads(answer.read_text()),
        }

    def close(self) -> None:
        for kernel in self._kernels:
            kernel.close()

    def _kernel(self) -> Kernel:
        kernel = Kernel(self._folder)
        self._kernels.append(kernel)
        return kernel

    def _used_bytes(self, pid: int) -> int:
        """Of the card, by this process, as the driver counts it; all of the card where it does not say."""
        if self._rehearse:
            return 0
        rows = _smi("--query-compute-apps=pid,used_memory")
        mine = [int(row[1]) for row in rows if row[0] == str(pid) and row[1].isdecimal()]
        if mine:
            return sum(mine) * 1024 * 1024
        return int(_smi("--query-gpu=memory.used")[0][0]) * 1024 * 1024

    def _owner(self) -> str:
        if self._rehearse:
            return "nobody"
        ended = subprocess.run(
            [sys.executable, "-c", OWNER], capture_output=True, text=True, timeout=CELL_LIMIT_S, check=False
        )
        return (ended.stdout or ended.stderr).strip()[-200:]


class Kernel:
    """A real ipykernel, its sockets in a folder."""

    def __init__(self, folder: Path) -> None:
        from jupyter_client.manager import KernelManager

        self._manager = KernelManager(transport="ipc", ip=str(folder / f"k{time.monotonic_ns()}"))
        self._manager.start_kernel()
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=CELL_LIMIT_S)
        self.pid: int = self._manager.provisioner.process.pid
        self._said: dict[str, str] = {}
        self._idle: set[str] = set()

    def run(self, code: str) -> str:
        return self.result(self.begin(code))

    def begin(self, code: str) -> str:
        return str(self._client.execute(code))

    def printed(self, cell: str, lines: int) -> None:
        self._hear(lambda: len(self._said.get(cell, "").splitlines()) >= lines)

    def result(self, cell: str) -> str:
        self._hear(lambda: cell in self._idle)
        return self._said.get(cell, "")

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._client.stop_channels()
            self._manager.shutdown_kernel(now=True)

    def _hear(self, enough: Callable[[], bool]) -> None:
        until_s = time.monotonic() + CELL_LIMIT_S
        while not enough():
            message = self._client.get_iopub_msg(timeout=max(0.1, until_s - time.monotonic()))
            cell, content = message["parent_header"].get("msg_id", ""), message["content"]
            if message["msg_type"] == "stream":
                self._said[cell] = self._said.get(cell, "") + content["text"]
            elif message["msg_type"] == "error":
                raise RuntimeError(f"{content['ename']}: {content['evalue']}")
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                self._idle.add(cell)


def _smi(query: str) -> list[list[str]]:
    words = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False).stdout
    return [[field.strip() for field in line.split(",")] for line in said.splitlines() if line.strip()]


if __name__ == "__main__":
    sys.exit(main())
