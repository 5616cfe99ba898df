"""One question a module, each with a Protocol and its answers. Pure: all they know comes as arguments."""
