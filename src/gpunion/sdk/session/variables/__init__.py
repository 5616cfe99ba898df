"""The variables of a kernel, saved by groups and brought back into another; runs inside the kernel.

A snapshot is a folder: `about.json` and one file a group. It is pickled data, so reading one runs what it
says: nobody reads it but a kernel in a guest.
"""
