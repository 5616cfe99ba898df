"""What an agent and the program in a guest say to each other."""
