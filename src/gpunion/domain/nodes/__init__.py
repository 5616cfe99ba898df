"""Records of machines and what their owners grant."""
