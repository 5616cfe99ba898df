"""What people send to guests: led through the tunnels of their machines, and held while a session moves."""
