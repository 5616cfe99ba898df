"""What runs on the GPU in the play: a guest's training, and the owner's own work."""

from __future__ import annotations

GUEST = """
import json, time, torch
from gpunion.sdk.job import training

seen = {"devices": torch.cuda.device_count(), "name": torch.cuda.get_device_name(0)}
state = {"w": torch.zeros(1024, 1024, device="cuda"), "ballast": torch.ones(1 << 30, device="cuda")}
torch.cuda.synchronize()
print("SEEN " + json.dumps(seen), flush=True)

def save(directory):
    torch.save(state["w"].cpu(), directory / "w.pt")

def load(directory):
    state["w"] = torch.load(directory / "w.pt").cuda()

run = training.Training(total_steps=1000000, save=save, load=load)
for step in run.steps():
    state["w"] = state["w"] @ state["w"] * 1e-3 + step
    torch.cuda.synchronize()
    time.sleep(0.01)
"""

# Holds memory and works half of the time, until it is told that this is enough.
HALF_BUSY = """
import os, time, torch
enough = os.path.join(os.environ["GPUNION_CONTROL_DIR"], "enough")
held = torch.ones(6 << 30, dtype=torch.uint8, device="cuda")
weights = torch.randn(8192, 8192, device="cuda") / 8192
torch.cuda.synchronize()
print("WORKS", flush=True)
while not os.path.exists(enough):
    began = time.monotonic()
    while time.monotonic() - began < 0.5:
        weights = weights @ weights
        torch.cuda.synchronize()
    time.sleep(0.5)
"""

REHEARSED_HALF_BUSY = """
import os, time
enough = os.path.join(os.environ["GPUNION_CONTROL_DIR"], "enough")
print("WORKS", flush=True)
while not os.path.exists(enough):
    time.sleep(0.1)
"""

# Prints when its memory is on the GPU, then computes until its input ends.
OWNER = """
import sys, time, torch
w = torch.ones(1 << 28, device="cuda")
torch.cuda.synchronize()
print("READY %.6f" % time.time(), flush=True)
sys.stdin.read()
"""

# The same without a GPU. The owner leaves a file with its number where the fake driver looks; for the guest,
# which knows only the number it has inside its sandbox, the test does.
REHEARSED_GUEST = """
import json, time
from gpunion.sdk.job import training

print("SEEN " + json.dumps({"devices": 1, "name": "rehearsed"}), flush=True)
state = {"w": 0}

def save(directory):
    (directory / "w").write_text(str(state["w"]))

def load(directory):
    state["w"] = int((directory / "w").read_text())

run = training.Training(total_steps=1000000, save=save, load=load)
for step in run.steps():
    state["w"] += 1
    time.sleep(0.01)
"""

REHEARSED_OWNER = """
import os, sys, time
open(os.path.join(os.environ["FAKE_GPU"], str(os.getpid())), "w").close()
print("READY %.6f" % time.time(), flush=True)
sys.stdin.read()
"""

# Prints how many steps of training it does in a second, of two kinds: small ones, whose time is Python's and
# the driver's, and large ones, whose time is the card's. Both are fed from pinned memory.
SPEED = """
import json, time, torch
torch.manual_seed(0)

def rate(width, depth, batch, seconds, looked_every):
    layers = [part for _ in range(depth) for part in (torch.nn.Linear(width, width), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    host = torch.randn(batch, width).pin_memory()

    def steps(count):
        for _ in range(count):
            x = host.to("cuda", non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = (model(x) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()

    steps(4 * looked_every)
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        steps(looked_every)
        done += looked_every
    return done / (time.perf_counter() - began)

rates = {"small_steps": rate(512, 6, 64, 5.0, 50), "large_steps": rate(8192, 6, 4096, 5.0, 5)}
print("RATES " + json.dumps({"rates": rates, "torch": torch.__version__}), flush=True)
"""

REHEARSED_SPEED = """
import json, time
began, done = time.perf_counter(), 0
while time.perf_counter() - began < 1.0:
    sum(range(1000))
    done += 1
print("RATES " + json.dumps({"rates": {"sums": done / (time.perf_counter() - began)}}), flush=True)
"""
