"""A store that forgets when the process ends, for tests and for comparing other stores with.

`store.MemoryStore(disk)` implements `ports.store.Store`; two of them on one `Disk` are two coordinators.
"""
