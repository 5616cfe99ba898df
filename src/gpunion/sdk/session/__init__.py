"""What runs in the guest of a session: JupyterLab and sshd behind sockets, kept, saved and brought back.

`python3 -m gpunion.sdk.session notebook` (or `shell`) is the guest's program. Like `sdk.job` it needs the
standard library only; JupyterLab, ipykernel and cloudpickle are the guest's own, and `server` and `variables`
run inside of those. docs/sessions.md has what people see of it.
"""
