"""What a simulated campus did, without names: recorded once, and compared with."""
