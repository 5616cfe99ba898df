"""Guests in Podman containers: `runtime.open_podman(state_dir)` implements `ports.runtime.Runtime`."""
