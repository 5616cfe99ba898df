"""What machines that lend ask: to join, and to hear and report from then on."""
