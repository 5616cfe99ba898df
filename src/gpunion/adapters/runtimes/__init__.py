"""Where guests run: one folder a runtime."""
