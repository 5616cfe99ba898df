"""The simulator: the same engine on modelled machines, in virtual time, from one seed."""
