"""`python -m gpunion.agent [--state-dir DIR]`: the agent alone, for supervisors and tests."""

from __future__ import annotations

import argparse
import sys

from gpunion.agent.main import EXIT_REFUSED, run_agent
from gpunion.agent.settings import SettingsTrouble, load_settings, state_dir_of


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gpunion.agent", description="Lends this machine to guests."
    )
    parser.add_argument("--state-dir", help="where the agent keeps its settings, its memory and its guests")
    given = parser.parse_args(arguments)
    try:
        settings = load_settings(state_dir_of(given.state_dir))
    except SettingsTrouble as trouble:
        print(trouble, file=sys.stderr)
        return EXIT_REFUSED
    return run_agent(settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
