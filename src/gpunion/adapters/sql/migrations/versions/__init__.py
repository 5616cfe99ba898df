"""One step of the schema a module, in order. A step that has been released is never edited."""
