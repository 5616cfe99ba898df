"""Guests as plain processes of this machine, inside bubblewrap where it is there.

`runtime.SandboxRuntime(state_dir, allow_unsandboxed=False)` implements `ports.runtime.Runtime`;
`control.read_json` / `control.write_json` are the safe way to a guest's control directory;
`keeper` is the program that stays with one guest. Nothing is imported here: the keeper starts often and
must start fast.
"""
