"""`gpunion login`: keep an address and a token, so that they need not be typed again."""

from __future__ import annotations

import argparse
import getpass
import sys

from gpunion.cli.config import checked_url, keep
from gpunion.cli.context import Context
from gpunion.cli.exits import OK, USAGE, Trouble

JSON = "`{url, kept_in, version}`."
EXAMPLES = ("gpunion login https://campus.example:8765 --token TOKEN", "gpunion login URL < token-file")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="the coordinator's address")
    parser.add_argument(
        "--token", help="the token to show it (asked for, or read from standard input, when not given)"
    )
    parser.add_argument(
        "--no-check", action="store_true", help="keep it even if the coordinator does not answer now"
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    arguments.url = checked_url(arguments.url)
    arguments.token = arguments.token or context.environment.get("GPUNION_TOKEN") or _ask_token()
    version = None
    if not arguments.no_check:
        # A wrong token is better known now than tomorrow.
        version = context.campus(arguments).campus()["version"]
    path = keep(context.environment, arguments.url, arguments.token)
    if context.screen.as_json:
        context.screen.data({"url": arguments.url, "kept_in": str(path), "version": version})
    else:
        context.screen.line(f"Kept in {path}, readable by you alone. Next: gpunion ps")
    return OK


def _ask_token() -> str:
    token = getpass.getpass("Token: ") if sys.stdin.isatty() else sys.stdin.readline()
    if not token.strip():
        raise Trouble("there is no token", next_step="gpunion login URL --token TOKEN", code=USAGE)
    return token.strip()
