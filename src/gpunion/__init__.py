"""GPUnion: the people of a campus lend idle GPUs to each other without giving up ownership."""

from gpunion._version import __version__

__all__ = ["__version__"]
