"""What is parked, dumped and saved by `run_state_on_gpu`: training whose losses tell if a bit was lost."""

from __future__ import annotations

# Each step changes one piece of the ballast and takes its mean into the loss: memory that came back wrong
# shows. With a control directory it is a loop of the library's, which steps aside when it is asked.
TRAIN = """
import os, time, torch
from gpunion.sdk.job import training
torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
torch.set_num_threads(1)
device, steps = os.environ["DEVICE"], int(os.environ["STEPS"])
piece, width = int(os.environ["PIECE"]), int(os.environ["WIDTH"])
ballast = [torch.randn(piece, device=device) for _ in range(max(1, int(os.environ["BALLAST"]) // piece // 4))]
model = torch.nn.Sequential(
    torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(width, width)
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses = open(os.environ["LOSSES"], "a", buffering=1)
nothing = lambda directory: None
ours = training.Training(total_steps=steps, save=nothing, load=nothing)
plain = "PLAIN" in os.environ or "GPUNION_CONTROL_DIR" not in os.environ
for step in range(steps) if plain else ours.steps():
    held = ballast[step % len(ballast)]
    x = torch.randn(64, width, device=device)
    loss = ((model(x) - x) ** 2).mean() + held[: 1 << 16].mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    held.mul_(0.999).add_(loss.detach() * 1e-3)
    losses.write(f"{step} {loss.item().hex()}\\n")
    time.sleep(float(os.environ["PAUSE"]))
sums = [piece.double().sum().item().hex() for piece in ballast]
losses.write("end " + " ".join(sums) + "\\n")
losses.close()
"""

# Prints as JSON how many steps it did in its time and what saving cost it. It is asked to save through the
# same files as by an agent.
SAVED_WHILE_TRAINING = """
import json, os, time, torch
from gpunion.sdk.job import pytorch
device, width, depth = os.environ["DEVICE"], int(os.environ["WIDTH"]), int(os.environ["DEPTH"])
torch.manual_seed(0)
layers = [m for _ in range(depth) for m in (torch.nn.Linear(width, width), torch.nn.GELU())]
model = torch.nn.Sequential(*layers).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
def finished():
    if device == "cuda":
        torch.cuda.synchronize()
def one_step():
    x = torch.randn(int(os.environ["BATCH"]), width, device=device)
    loss = ((model(x) - x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for _ in range(10):
    one_step()
finished()
run = pytorch.training(total_steps=10**9, model=model, optimizer=optimizer)
marks, until = [], float(os.environ["SECONDS"])
open(os.path.join(os.environ["GPUNION_CONTROL_DIR"], "ready"), "w").close()
began = last = time.monotonic()
for step in run.steps():
    one_step()
    finished()
    now = time.monotonic()
    marks.append(now - last)
    last = now
    if now - began > until:
        break
state = sum(p.numel() * p.element_size() for p in model.parameters()) * 3
print("RESULT " + json.dumps({"steps": len(marks), "seconds": last - began, "stalled_s": run.stalled_s,
    "median_step_s": sorted(marks)[len(marks) // 2], "longest_steps_s": sorted(marks)[-6:],
    "state_bytes": state}))
"""

TRAINERS = {
    "huggingface": """
import json, os, torch, transformers
from gpunion.sdk.job import huggingface
class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(4, 1)
    def forward(self, x=None, labels=None):
        out = self.line(x)
        return {"loss": ((out - labels) ** 2).mean(), "logits": out}
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {"x": torch.randn(4, generator=g), "labels": torch.randn(1, generator=g)}
transformers.set_seed(1)
arguments = transformers.TrainingArguments(
    output_dir=huggingface.output_dir("out"), max_steps=int(os.environ["STEPS"]),
    per_device_train_batch_size=4, save_strategy="no", logging_steps=1, report_to=[], disable_tqdm=True,
    use_cpu=os.environ["DEVICE"] == "cpu")
trainer = transformers.Trainer(Tiny(), arguments, train_dataset=Data(), callbacks=[huggingface.callback()])
trainer.train(resume_from_checkpoint=huggingface.newest())
print("RESULT " + json.dumps([entry["loss"] for entry in trainer.state.log_history if "loss" in entry][-3:]))
""",
    "lightning": """
import json, os, torch
from gpunion.sdk.job import lightning as saving
try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl
class Tiny(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.line, self.seen = torch.nn.Linear(4, 1), []
    def training_step(self, batch, index):
        x, y = batch
        loss = ((self.line(x) - y) ** 2).mean()
        self.seen.append(float(loss))
        return loss
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
pl.seed_everything(1)
g = torch.Generator().manual_seed(1)
# All batches alike: Lightning begins an epoch's data anew when it resumes in the middle of it.
x, y = torch.randn(4, 4, generator=g), torch.randn(4, 1, generator=g)
data = torch.utils.data.TensorDataset(x.repeat(1000, 1), y.repeat(1000, 1))
model = Tiny()
trainer = pl.Trainer(max_steps=int(os.environ["STEPS"]), callbacks=[saving.callback()], logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    accelerator="cpu" if os.environ["DEVICE"] == "cpu" else "gpu", devices=1)
trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=4), ckpt_path=saving.newest())
print("RESULT " + json.dumps(model.seen[-3:]))
""",
}
