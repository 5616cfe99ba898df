"""Guests in containers, whichever engine makes them. `docker` and `podman` build on this.

`runtime.ContainerRuntime` implements `ports.runtime.Runtime`; `request` says how a guest is confined;
`keeper` is the program that stays with one guest. Nothing is imported here: the keeper starts often.
"""
