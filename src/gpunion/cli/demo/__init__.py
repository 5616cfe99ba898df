"""`gpunion demo`: three labs on this machine, and one job that survives their owners.

Everything is real but the GPUs, which are declared: coordinator and agents are processes of their own, the
job is a training run in a sandbox, and its final weights are compared with an uninterrupted run's.
"""

from __future__ import annotations

from argparse import Namespace


def main(options: Namespace) -> int:
    from gpunion.cli.demo.acts import perform

    return perform(options)
