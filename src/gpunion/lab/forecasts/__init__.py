"""Bounds and examinations of forecasts."""
