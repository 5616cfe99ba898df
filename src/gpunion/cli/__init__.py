"""The command line. `main` finds the command, `commands/` has one module for each, the rest is shared.

A command's module is imported only when it is the one asked for, and imports what it needs when it runs:
starting must stay cheap as the program grows.
"""
