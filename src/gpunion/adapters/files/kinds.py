"""How a piece of a stored block is packed."""

# As in planes.c, and in every stored block: a number keeps its meaning.
AS_IT_IS, COMPRESSED, EXCEPTIONS, CODES, NARROW = range(5)
