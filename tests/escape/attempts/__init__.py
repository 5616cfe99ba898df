"""What a guest tries, from inside: `python -m attempts targets.json` writes what came of it to results.json.

Runs in the guest with the standard library alone. Nothing here changes the host even where it gets through:
files of the kernel are opened and never written, and system calls get arguments that can do nothing, in an
order that asks for permission first. An attempt returns what it got hold of, or raises what refused it.
"""

# Each lists its attempts when it is imported.
from . import files, kernel, namespaces, network, processes, resources
from .trying import ATTEMPTS

__all__ = ["ATTEMPTS", "files", "kernel", "namespaces", "network", "processes", "resources"]
