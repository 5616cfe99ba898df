"""Packages of jobs, installed by pip."""
