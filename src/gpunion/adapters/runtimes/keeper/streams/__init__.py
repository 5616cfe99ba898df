"""Ways into a guest for people: its sockets, its ports, a terminal."""
