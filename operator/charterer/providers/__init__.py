"""Clouds behind one small interface: what they have, what it costs, more of it, and an end to one machine of it.

An adapter translates its cloud's words and errors into the domain's, once. It decides nothing and remembers nothing.
"""
