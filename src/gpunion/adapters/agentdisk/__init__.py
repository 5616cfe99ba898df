"""The agent's memory as one JSON file that is replaced whole."""

from gpunion.adapters.agentdisk.disk import JsonAgentDisk

__all__ = ["JsonAgentDisk"]
