"""What runs in windows in the play of `run_windows_on_gpu`."""

from __future__ import annotations

# Prints when it begins to train, however it ends what it measured itself, and at its end what the weights
# are. Outside of a campus it is the same training, left alone.
TRAIN = """
import json, os, time, torch
from gpunion.sdk.job import pytorch
device, width = os.environ["DEVICE"], int(os.environ["WIDTH"])
torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(
    torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(width, width)
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
run = pytorch.training(total_steps=int(os.environ["STEPS"]), model=model, optimizer=optimizer)
took_s = []
try:
    for step in run.steps():
        began_s = time.monotonic()
        x = torch.randn(256, width, device=device)
        loss = ((model(x) - x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        time.sleep(0.02)
        took_s.append(time.monotonic() - began_s)
        if len(took_s) == 4:
            print("TRAINS", flush=True)
finally:
    timed = took_s[3:]
    print("MEASURED " + json.dumps({
        "steps": len(timed),
        "step_s": sum(timed) / max(1, len(timed)),
        "peak_bytes": torch.cuda.max_memory_reserved() if device == "cuda" else 0,
    }), flush=True)
def bits(tensor):
    found = tensor.detach().cpu().flatten().view(torch.int32).to(torch.int64)
    return int((found * torch.arange(1, len(found) + 1)).sum())
print("WEIGHTS " + " ".join(str(bits(one)) for one in model.parameters()), flush=True)
"""

# Knows nothing of the library: it is saved by a command, and has so many bytes on its GPU.
WRAPPED = """
import os, time, torch
held = torch.ones(int(os.environ["BYTES"]) // 4, device=os.environ["DEVICE"])
print("HOLDS", flush=True)
with open(os.path.join(os.environ["GPUNION_CHECKPOINT_DIR"], "state"), "w") as file:
    file.write("0")
time.sleep(600)
"""

# Takes more and more of a GPU, and tells how much it had when no more was given.
GREEDY = """
import os, time, torch
from gpunion.sdk.job import training
device, piece, held = os.environ["DEVICE"], int(os.environ["PIECE"]), []
held.append(torch.ones(1, device=device))
def nothing(directory):
    (directory / "state").write_text("0")
run = training.Training(total_steps=1000, save=nothing, load=lambda directory: None)
try:
    for step in run.steps():
        held.append(torch.empty(piece // 4, device=device))
        time.sleep(0.02)
finally:
    print("HELD %d" % (piece * (len(held) - 1)), flush=True)
"""

# As much of PyTorch as the three use, without a GPU: a card that counts what is asked of it.
STAND_IN = """
import sys, types
class OutOfMemoryError(RuntimeError):
    pass
OutOfMemoryError.__module__ = "torch"
class Card:
    total_bytes, used_bytes, limit_bytes = 140 * 1024**3, 0, 140 * 1024**3
    def is_initialized(self):
        return True
    is_available = is_initialized
    def device_count(self):
        return 1
    def get_device_properties(self, number):
        return types.SimpleNamespace(total_memory=self.total_bytes)
    def set_per_process_memory_fraction(self, fraction, number):
        self.limit_bytes = int(fraction * self.total_bytes)
    def max_memory_reserved(self, number=0):
        return self.used_bytes
    def take(self, count, device=""):
        if self.used_bytes + 4 * count > self.limit_bytes:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate %d bytes" % (4 * count))
        self.used_bytes += 4 * count
        return self.used_bytes
torch = types.ModuleType("torch")
torch.cuda = Card()
torch.ones = torch.empty = torch.cuda.take
sys.modules["torch"] = torch
"""

REHEARSED_TRAIN = """
import hashlib, json, os, random, time
import torch
from gpunion.sdk.job import training
torch.empty(1 << 20)
state = {"random": random.Random(0), "loss": 1.0}
def save(directory):
    (directory / "state").write_text(json.dumps([state["random"].getstate(), state["loss"]]))
def load(directory):
    drawn, state["loss"] = json.loads((directory / "state").read_text())
    state["random"].setstate((drawn[0], tuple(drawn[1]), drawn[2]))
run = training.Training(total_steps=int(os.environ["STEPS"]), save=save, load=load)
took_s = []
try:
    for step in run.steps():
        began_s = time.monotonic()
        state["loss"] = 0.999 * state["loss"] + 0.001 * state["random"].random()
        time.sleep(0.02)
        took_s.append(time.monotonic() - began_s)
        if len(took_s) == 4:
            print("TRAINS", flush=True)
finally:
    timed = took_s[3:]
    measured = {
        "steps": len(timed),
        "step_s": sum(timed) / max(1, len(timed)),
        "peak_bytes": torch.cuda.max_memory_reserved(),
    }
    print("MEASURED " + json.dumps(measured), flush=True)
print("WEIGHTS " + hashlib.sha256(repr(state["loss"]).encode()).hexdigest(), flush=True)
"""
