"""The owner's word, as it comes in and goes out."""
