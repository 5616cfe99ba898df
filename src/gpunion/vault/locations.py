"""A named place where checkpoints are kept, as the campus's configuration describes it.

No secret is in it: `credentials` says where a machine finds its own, in a file or in the environment.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from gpunion.limits import LOCATION_NAME_PATTERN

# Who serves it, and where: no user, no question, no blank. Read by hand, since reading addresses is I/O's.
ENDPOINT_PATTERN = re.compile(r"https?://(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?(?:/[^\s?#]*)?")
PORT_MAX = 65_535
# Servers differ in what else they allow; these can stand in an address.
BUCKET_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
REGION_PATTERN = re.compile(r"[!-~]+")
CREDENTIALS_PATTERN = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/.+")
# Always there: the coordinator's own vault, through a folder that is shared or through the coordinator.
CAMPUS = "campus"
MARK_FILE = "mark"  # in a folder: by what it bears a machine finds out whether it shares it or only its name
SECRETS = {"access_key", "access_key_id", "secret", "secret_key", "secret_access_key", "password", "token"}


class PlaceKind(StrEnum):
    CAMPUS = "campus"
    DIRECTORY = "directory"
    S3 = "s3"
    NODE = "node"  # a machine of the campus whose owner lends disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    name: str
    kind: PlaceKind
    directory: str = ""
    mark: str = ""  # lies in the directory: who finds it there shares that folder, and not only its name
    bucket: str = ""
    endpoint: str = ""
    region: str = "us-east-1"
    prefix: str = ""
    credentials: str = ""
    node: str = ""
    # What the coordinator adds for a machine that asks: how to get in where a node keeps it (`keeping`).
    certificate: str = ""
    admission: str = field(default="", repr=False)
    key: str = field(default="", repr=False)  # for the keeper alone

    def describe(self) -> str:
        match self.kind:
            case PlaceKind.CAMPUS:
                return "kept by the coordinator: through it, or as a folder that a machine shares"
            case PlaceKind.DIRECTORY:
                return self.directory
            case PlaceKind.S3:
                where = f" at {self.endpoint}" if self.endpoint else ""
                return f"bucket {self.bucket}{'/' if self.prefix else ''}{self.prefix}{where}"
            case PlaceKind.NODE:
                return f"on the disk of {self.node}"


KEYS = {
    PlaceKind.CAMPUS: {"kind", "mark"},
    PlaceKind.DIRECTORY: {"kind", "directory", "mark"},
    PlaceKind.S3: {"kind", "bucket", "endpoint", "region", "prefix", "credentials"},
    PlaceKind.NODE: {"kind", "node"},
}
# Never written by people.
TOLD = {"endpoint", "certificate", "admission", "key"}
NEEDED = {
    PlaceKind.CAMPUS: set[str](),
    PlaceKind.DIRECTORY: {"directory"},
    PlaceKind.S3: {"bucket", "credentials"},
    PlaceKind.NODE: {"node"},
}


def place_of(name: str, table: object, *, told: bool = False) -> Place:
    """ValueError says what is wrong with it, and never repeats what may be a secret. `told` by the
    coordinator to a machine: then with what it needs to get in."""
    if not LOCATION_NAME_PATTERN.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a place; small letters, digits, - and _ can")
    if not isinstance(table, Mapping):
        raise ValueError(f"{name} is a table, with kind = one of {', '.join(PlaceKind)}")
    if table.get("kind") not in list(PlaceKind):
        raise ValueError(f"{name}.kind is one of {', '.join(PlaceKind)}, not {table.get('kind')!r}")
    kind = PlaceKind(str(table["kind"]))
    known = KEYS[kind] | (TOLD if told and kind is PlaceKind.NODE else set())
    _refuse_unknown(name, kind, table, known)
    missing = sorted(NEEDED[kind] - {key for key, value in table.items() if value})
    if missing:
        raise ValueError(f"{name} is a place of kind {kind} and lacks {', '.join(missing)}")
    texts = {key: value for key, value in table.items() if key != "kind"}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise ValueError(f"{name}.{key} is not a text in quotes")
    _check(name, kind, texts)
    return Place(name=name, kind=kind, **texts)


def table_of(place: Place) -> dict[str, str]:
    """What `place_of` reads again, as it was told."""
    found = {item.name: str(getattr(place, item.name)) for item in fields(place) if item.name != "name"}
    known = KEYS[place.kind] | (TOLD if place.kind is PlaceKind.NODE else set())
    return {key: value for key, value in found.items() if value and key in known}


def _refuse_unknown(name: str, kind: PlaceKind, table: Mapping[str, object], known: set[str]) -> None:
    for key in table:
        if key in SECRETS:
            raise ValueError(
                f"{name}.{key}: a secret is not written here. Write where each machine finds its own: "
                'credentials = "file:/PATH" or credentials = "env:NAME"'
            )
        if key not in known:
            near = difflib.get_close_matches(str(key), sorted(known), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
            raise ValueError(f"{name}: unknown key {key!r} of a place of kind {kind}; {hint}")


def _check(name: str, kind: PlaceKind, texts: Mapping[str, str]) -> None:
    if kind is PlaceKind.DIRECTORY and not texts["directory"].startswith("/"):
        raise ValueError(f"{name}.directory begins with /: every machine has to find the same folder")
    if kind is PlaceKind.S3:
        _check_bucket(name, texts)


def _check_bucket(name: str, texts: Mapping[str, str]) -> None:
    """What a client of buckets would stumble over on every machine is refused where it is written."""
    endpoint = texts.get("endpoint", "")
    if endpoint and not _is_endpoint(endpoint):
        raise ValueError(
            f"{name}.endpoint looks like https://s3.campus.example:9000: http or https, a host, "
            f"a port up to {PORT_MAX} if need be, and no blank"
        )
    if not BUCKET_PATTERN.fullmatch(texts["bucket"]):
        raise ValueError(
            f"{name}.bucket is the bucket's name alone: letters, digits, ., - and _; "
            "a path within it is written as prefix"
        )
    if texts.get("prefix") and not _is_prefix(texts["prefix"]):
        raise ValueError(
            f'{name}.prefix is a path within the bucket, such as "vaults/gpunion": '
            "names with one / between them, none of them . or .., and no line break"
        )
    if texts.get("region") and not REGION_PATTERN.fullmatch(texts["region"]):
        raise ValueError(f"{name}.region is one word such as us-east-1, without a blank")
    if not CREDENTIALS_PATTERN.fullmatch(texts["credentials"]):
        raise ValueError(
            f'{name}.credentials says where a machine finds its own: "file:/PATH" (mode 600) '
            'or "env:NAME" (NAME_ACCESS_KEY_ID and NAME_SECRET_ACCESS_KEY)'
        )


def _is_endpoint(text: str) -> bool:
    found = ENDPOINT_PATTERN.fullmatch(text)
    return found is not None and (found.group(1) is None or 0 < int(found.group(1)) <= PORT_MAX)


def _is_prefix(text: str) -> bool:
    names = text.removeprefix("/").removesuffix("/").split("/")
    return all(name not in ("", ".", "..") and name.isprintable() for name in names)
