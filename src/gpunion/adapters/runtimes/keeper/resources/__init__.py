"""What a guest takes of its host: looked at from outside, by its keeper."""
