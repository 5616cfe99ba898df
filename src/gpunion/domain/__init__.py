"""The vocabulary: frozen values that every other package speaks in.

Pure: nothing here reads a clock, draws a random number or opens anything.
"""
