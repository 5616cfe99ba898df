"""One modelled machine: its agent, guests, disk and owner."""
