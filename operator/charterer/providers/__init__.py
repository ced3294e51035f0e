"""Clouds behind one small interface: what they have, what it costs, renting more, and ending one machine.

An adapter translates its cloud's words and errors into the domain's. It decides nothing and remembers nothing.
"""
