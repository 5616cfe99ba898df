"""What an engine does about each kind of event, one concern a module.

Agent: orders, guests, saves, ownership, lease, restart. Coordinator: jobs, nodes, runs, checkpoints.
"""
