"""A small training that is asked to save itself, alone or as two ranks: prints its losses as JSON."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from gpunion.sdk.job import gang, pytorch

STEPS = 40
AT_STEP = int(os.environ.get("AT_STEP", "0"))
# After this step its window is over, where it runs in windows.
WINDOW_AT = int(os.environ.get("WINDOW_AT", "-1"))


def train(rank: int, asks: dict[int, bool]) -> dict[str, Any]:
    """`asks`: after which steps a save is asked for, and whether it is the last one."""
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    torch.manual_seed(10 + rank)
    layers = [torch.nn.Linear(8, 8), torch.nn.Dropout(0.3), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    run = pytorch.training(
        total_steps=STEPS,
        model=model,
        optimizer=optimizer,
        scheduler=scheduler,
        sharded=True,  # each rank has a model of its own here
        agree_every=5,
    )
    losses: dict[str, Any] = {}
    try:
        for step in run.steps():
            loss = (model(torch.randn(4, 8)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses[str(step)] = loss.item()
            if rank == 0 and step == WINDOW_AT:
                said = json.dumps({"ends": time.time(), "hard": True, "save_s": 0.0})
                Path(os.environ["GPUNION_CONTROL_DIR"], "window.json").write_text(said)
                time.sleep(0.1)  # it is looked for that often
            if (rank == 0 or gang.size() > 1) and step in asks:
                request = {"id": f"save-{step}", "final": asks[step], "at_step": AT_STEP}
                Path(os.environ["GPUNION_CONTROL_DIR"], "request.json").write_text(json.dumps(request))
                os.kill(os.getpid(), signal.SIGUSR1)
    except SystemExit as end:
        losses["exit"] = end.code
    return losses


def main() -> None:
    asks = {int(step): last for step, last in json.loads(sys.argv[1]).items()}
    rank = int(os.environ.get("RANK", "0"))
    if "RANK" in os.environ:
        distributed: Any = importlib.import_module("torch.distributed")
        distributed.init_process_group("gloo")
    print(json.dumps(train(rank, asks)))


if __name__ == "__main__":
    main()
