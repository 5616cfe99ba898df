"""How likely is a node to leave, and when?"""
