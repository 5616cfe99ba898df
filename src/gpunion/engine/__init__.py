"""The brain: events in, decisions out. Three shells drive it: live coordinator, live agent, simulator."""
