"""An owner's iCalendar file, by two libraries that run in a process of their own."""
