"""Lines to one kernel do not hear each other's answers."""

from __future__ import annotations

from types import SimpleNamespace

from gpunion.sdk.session.server.kernel_line import KernelLine


class Kernel:
    """As Jupyter's manager: each client has a copy of one session, with its identity and its count."""

    def __init__(self) -> None:
        self.sessions: list[SimpleNamespace] = []

    def client(self) -> SimpleNamespace:
        self.sessions.append(SimpleNamespace(bsession=b"the-manager", message_count=0))
        return SimpleNamespace(session=self.sessions[-1])


def test_two_lines_at_a_time_have_identities_and_numbers_of_their_own() -> None:
    kernel = Kernel()
    KernelLine(kernel)
    KernelLine(kernel)
    one, two = kernel.sessions
    assert one.bsession != two.bsession
    assert abs(one.message_count - two.message_count) > 1000
