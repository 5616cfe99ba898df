"""The HTTP API's own words, version 1: pydantic models, and the way from and to domain values.

Models are a promise to clients and change slowly; domain values may change with the engine. `convert` is
the only place where both are known.
"""
