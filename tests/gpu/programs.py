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
