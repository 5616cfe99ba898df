"""What crosses a boundary. The only home of msgspec and pydantic models."""
