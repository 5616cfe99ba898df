"""`gpunion coordinator`: serve a campus until told otherwise."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpunion.cli.context import Context
from gpunion.cli.exits import USAGE, Trouble
from gpunion.cli.extras import missing_extra

JSON = None
EXAMPLES = ("gpunion coordinator", "gpunion coordinator --listen 0.0.0.0:8765 --vault /srv/gpunion-vault")


def configure(parser: argparse.ArgumentParser) -> None:
    from gpunion.coordinator.damage.mends import MENDS, flag_of
    from gpunion.coordinator.settings import DEFAULT_PORT

    parser.add_argument("--config", type=Path, metavar="FILE", help="a TOML file with settings")
    parser.add_argument("--data", metavar="DIR", help="where the database, the admin token and the logs live")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help=f"where to listen; port 0 picks a free one (127.0.0.1:{DEFAULT_PORT})",
    )
    parser.add_argument(
        "--vault", metavar="DIR", help="where checkpoints live, as agents are told (DIR/vault)"
    )
    parser.add_argument(
        "--new-admin-token",
        action="store_true",
        help="make a new admin token, where the one there is was lost or is known to others: it is void then",
    )
    damaged = parser.add_mutually_exclusive_group()
    for mend, does in MENDS.items():
        damaged.add_argument(flag_of(mend), dest="mend", action="store_const", const=mend, help=does)
    parser.add_argument("--log-format", choices=("text", "json"), help="how its log is written (text)")


def run(arguments: argparse.Namespace, context: Context) -> int:
    from gpunion.coordinator.settings import BadSettings, load

    host, port = _listen(arguments.listen)
    given = {
        "data_dir": arguments.data,
        "host": host,
        "port": port,
        "vault": arguments.vault and str(Path(arguments.vault).expanduser().absolute()),
        "log_format": arguments.log_format,
    }
    try:
        settings = load(arguments.config, context.environment, given)
    except BadSettings as error:
        raise Trouble(str(error), next_step="gpunion coordinator --help", code=USAGE) from error
    try:
        from gpunion.coordinator.main import CannotStart, serve
        from gpunion.ports.database import Mend
    except ImportError as error:
        raise missing_extra(error, "coordinator") from error
    try:
        mend = arguments.mend or Mend.NOTHING
        return serve(settings, new_admin_token=arguments.new_admin_token, mend=mend)
    except CannotStart as error:
        raise Trouble(
            "the coordinator cannot start", why=error.why, next_step=error.next_step, code=error.code
        ) from error


def _listen(text: str | None) -> tuple[str | None, str | None]:
    if text is None:
        return None, None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise Trouble(f"--listen {text}: write HOST:PORT, like 127.0.0.1:8765 or [::1]:8765", code=USAGE)
    return host.strip("[]") or None, port
