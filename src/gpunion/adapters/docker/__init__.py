"""Guests in Docker containers: `runtime.open_docker(state_dir)` implements `ports.runtime.Runtime`."""
