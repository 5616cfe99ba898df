"""The API's routes, one module a noun. They parse, ask the loop or read the state, and show."""
