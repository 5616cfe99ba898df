"""How a person's own machine reaches a session: a page on its loopback, ssh, a terminal, a port."""
