"""What is done for and to single guests."""
