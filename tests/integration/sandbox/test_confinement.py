"""What a guest in bubblewrap can see and touch of its host: nothing that is not its own."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.keeper.guest_dir import guest_paths
from gpunion.adapters.runtimes.sandbox.bubblewrap import Bubblewrap, NoBubblewrap, find_bubblewrap
from gpunion.adapters.runtimes.sandbox.launch_plan import plan_sandboxed
from tests.integration.sandbox.conftest import Host
from tests.real_machine import command_lines

pytestmark = pytest.mark.requires("bwrap")


def test_a_guest_sees_no_home_no_state_directory_and_no_other_guest(sandbox: Host, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    other = sandbox.start("sleep", "100000", run_id="other")
    paths = [
        str(tmp_path / "secret"),
        str(sandbox.state_dir),
        str(other),
        "/etc/shadow",
        "/etc/ssh",
        "/var",
        "/sys",
    ]
    assert sandbox.output_of(f"import os; print([os.path.exists(path) for path in {paths!r}])") == (
        f"{[False] * len(paths)}\n"
    )


def test_a_guest_sees_of_the_homes_only_the_python_it_runs(sandbox: Host) -> None:
    program = "import os; print(sorted(os.listdir('/home')) if os.path.isdir('/home') else [])"
    parts = Path(sys.base_prefix).parts
    expected = [parts[2]] if parts[:2] == ("/", "home") else []
    assert sandbox.output_of(program) == f"{expected}\n"


def test_a_guest_sees_only_its_own_processes(sandbox: Host) -> None:
    program = "import os; print(max(int(name) for name in os.listdir('/proc') if name.isdigit()) < 20)"
    assert sandbox.output_of(program) == "True\n"


def test_a_guest_has_no_network(sandbox: Host) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"socket.create_connection(('127.0.0.1', {port}))"
        program = f"import socket\ntry: {connect}\nexcept OSError: print('no')"
        assert sandbox.output_of(program) == "no\n"


@pytest.mark.parametrize(
    "path",
    [
        "/usr/planted",
        "/etc/planted",
        "/planted",
        "/gpunion/lib/planted",
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
    ],
)
def test_a_guest_cannot_write_outside_its_directories(sandbox: Host, path: str) -> None:
    # Only opened: were it allowed, the host must not suffer for the test.
    program = f"import os\ntry: os.open({path!r}, os.O_WRONLY | os.O_CREAT)\nexcept OSError: print('refused')"
    assert sandbox.output_of(program) == "refused\n"


def test_a_guest_does_not_own_the_hosts_devices_and_programs(sandbox: Host) -> None:
    paths = ("/dev/null", "/usr/bin", "/proc/sys")
    program = f"import os\nprint([path for path in {paths!r} if os.stat(path).st_uid == os.getuid()])"
    assert sandbox.output_of(program) == "[]\n"


def test_a_guest_has_no_capabilities_and_cannot_make_namespaces(sandbox: Host) -> None:
    program = (
        "import ctypes\n"
        "status = open('/proc/self/status').read()\n"
        "print([line.split()[1].strip('0') for line in status.splitlines() if line.startswith('CapEff')])\n"
        "print(ctypes.CDLL(None).unshare(0x10000000))"
    )
    expected = "['']\n-1\n" if "--disable-userns" in options() else "['']\n"
    assert sandbox.output_of(program).startswith(expected)


def options() -> tuple[str, ...]:
    found = find_bubblewrap()
    return found.options if isinstance(found, Bubblewrap) else ()


def test_a_guest_writes_to_its_own_directories_and_to_tmp(sandbox: Host) -> None:
    program = (
        "import os, tempfile\n"
        "places = [os.environ['GPUNION_' + name + '_DIR'] for name in ('CHECKPOINT', 'CONTROL', 'OUTPUT')]\n"
        "for place in [*places, os.environ['HOME'], tempfile.gettempdir(), '/tmp', '.']:\n"
        "    open(os.path.join(place, 'mine'), 'w').write('x')\n"
        "print('all')"
    )
    assert sandbox.output_of(program) == "all\n"
    assert (sandbox.state_dir / "guests" / "prints" / "checkpoint" / "mine").read_text() == "x"


def test_no_descriptor_of_the_keeper_reaches_a_guest(sandbox: Host) -> None:
    assert (
        sandbox.output_of("import os; print(len(os.listdir('/proc/self/fd')))") == "4\n"
    )  # the fourth lists


def test_a_guests_variables_are_in_no_command_line_and_act_on_nothing_outside(sandbox: Host) -> None:
    secret = "guests-own-secret"
    spec = sandbox.guest("sleep", "100000", environment={"LD_PRELOAD": "/nowhere/evil.so", "TOKEN": secret})
    asyncio.run(sandbox.runtime.start(spec))
    assert not any(secret.encode() in line for line in command_lines().values())
    status = asyncio.run(sandbox.runtime.status("job-1-e1"))
    assert status is not None
    assert status.alive
    found = find_bubblewrap()
    assert isinstance(found, Bubblewrap)
    plan = plan_sandboxed(
        spec, guest_paths(sandbox.state_dir / "guests" / "job-1-e1"), sandbox.state_dir, found
    )
    assert plan.environment == {}


ROOT = Path(__file__).resolve().parents[3]


def test_a_bubblewrap_in_a_folder_that_only_its_owner_may_enter_shuts_guests_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    folder = tmp_path / "portable"
    subprocess.run([str(ROOT / "tools" / "portable-bwrap"), str(folder)], check=True, capture_output=True)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    found = find_bubblewrap()
    assert isinstance(found, Bubblewrap)
    assert found.program == str(folder / "bwrap")
    host = Host(tmp_path / "state", True)
    try:
        assert host.output_of("print(open('/etc/passwd').read().count('\\n'))") == "2\n"  # and sshd's
    finally:
        host.close()


def test_a_bubblewrap_that_fails_is_passed_over_and_alone_it_says_why(tmp_path: Path) -> None:
    wrapper = tmp_path / "bwrap"
    wrapper.write_text("#!/bin/sh\necho no namespaces today >&2\nexit 1\n")
    wrapper.chmod(0o755)
    found = find_bubblewrap(str(tmp_path))
    assert isinstance(found, Bubblewrap)
    assert found.program != str(wrapper)
    alone = find_bubblewrap(str(tmp_path), system_path=())
    assert isinstance(alone, NoBubblewrap)
    assert "no namespaces today" in alone.why
    assert "portable-bwrap" in alone.mend
