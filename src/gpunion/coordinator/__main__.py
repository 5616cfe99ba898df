"""`python -m gpunion.coordinator`, the same as `gpunion coordinator` with fewer words to people."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from gpunion.coordinator.damage.mends import MENDS, flag_of
from gpunion.coordinator.main import CannotStart, serve
from gpunion.coordinator.settings import BadSettings, load
from gpunion.ports.database import Mend

EXIT_USAGE = 2


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpunion coordinator", description="Run a campus's coordinator.")
    parser.add_argument("--config", type=Path, help="a TOML file with settings")
    parser.add_argument("--data-dir", help="where the database, the admin token and the logs live")
    parser.add_argument("--host", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", help="the port to listen on; 0 picks one and writes it to DATA_DIR/address")
    parser.add_argument("--vault", help="where checkpoints live, as agents are told")
    mends = parser.add_mutually_exclusive_group()
    for mend, does in MENDS.items():
        mends.add_argument(flag_of(mend), dest="mend", action="store_const", const=mend, help=does)
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    config, mend = given.pop("config", None), given.pop("mend", Mend.NOTHING)
    try:
        settings = load(config, os.environ, given)
    except BadSettings as error:
        print(f"gpunion coordinator: {error}", file=sys.stderr)
        return EXIT_USAGE
    try:
        return serve(settings, mend=mend)
    except CannotStart as error:
        print(f"gpunion coordinator: cannot start: {error}", file=sys.stderr, flush=True)
        return error.code


if __name__ == "__main__":
    sys.exit(main())
