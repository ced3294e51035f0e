"""Explanations: why a job has its option, what more or less money would buy, and the value of each kind of capacity.

Only the CLI and reports import this package.
"""
