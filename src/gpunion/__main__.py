"""The command `gpunion`. What is needed in a hurry is answered before the rest is loaded."""

import sys

INTERRUPTED = 130  # as gpunion.cli.exits has it


def main() -> int:
    words = sys.argv[1:]
    if words in (["--version"], ["-V"]):
        from gpunion._version import __version__

        print(f"gpunion {__version__}")
        return 0
    if words[:1] == ["kill"]:
        from gpunion.owner_kill import main as kill

        return kill(words[1:])
    try:
        from gpunion.cli.main import main as everything_else
    except KeyboardInterrupt:  # from its first line on `everything_else` says so itself
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    return everything_else(words)


if __name__ == "__main__":
    sys.exit(main())
