"""Checkpoints on a machine: asked for, sent, restored, copied."""
