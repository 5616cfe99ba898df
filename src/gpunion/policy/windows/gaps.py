"""Which window is a free GPU, or that of a tenant whose turn is over?"""

from __future__ import annotations

from collections.abc import Iterable

from gpunion.domain.jobs.window import Window, WindowEnd
from gpunion.domain.nodes.node import DiskRoom, Node, NodePhase
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.resources import Gpu

# Before an owner's calendar has the machine: until then every word has arrived and every process is gone.
END_GUARD_S = 5.0


def may_be_offered(view: NodeView) -> bool:
    """Whether anybody may come there at all, however short their stay."""
    node, limit = view.node, view.node.facts.terms.max_guests
    if node.phase is not NodePhase.SHARING or node.isolated_because or node.unheard:
        return False
    return node.facts.disk is DiskRoom.FINE and view.guests < limit


def known_end_s(node: Node) -> float | None:
    """When its owner has it again, by their own terms, less a guard."""
    return None if node.known_end_s is None else node.known_end_s - END_GUARD_S


def window_over(
    node: Node,
    gpus: Iterable[Gpu],
    now_s: float,
    *,
    promised_s: float | None = None,
    promised: WindowEnd = WindowEnd.PROMISED,
    turn_s: float | None = None,
    stays: float = 1.0,
) -> Window:
    """`promised_s`: somebody who needs several GPUs at once begins there then. `turn_s`: others wait, and
    this is how long a turn lasts. A hard end counts before a soft one that comes later."""
    found = sorted(gpus, key=lambda gpu: gpu.index)
    ends_s, end = _end(node, now_s, promised_s, promised, turn_s)
    return Window(
        node_id=node.id,
        gpus=tuple(gpu.index for gpu in found),
        vram_bytes=min((gpu.memory_bytes for gpu in found), default=0),
        speed=min((gpu.speed for gpu in found), default=1.0),
        starts_s=now_s,
        ends_s=ends_s,
        end=end,
        stays=stays,
    )


def _end(
    node: Node, now_s: float, promised_s: float | None, promised: WindowEnd, turn_s: float | None
) -> tuple[float | None, WindowEnd]:
    known_s = known_end_s(node)
    ends = [(known_s, WindowEnd.KNOWN_END), (promised_s, promised)]
    ends.append((None if turn_s is None else now_s + turn_s, WindowEnd.TURN))
    found = [(at_s, end) for at_s, end in ends if at_s is not None]
    return min(found, key=lambda one: one[0], default=(None, WindowEnd.OPEN))
