"""Clouds behind one small interface: what machines a cloud has, what they cost, how to rent more, and how to end one
machine.

An adapter translates its cloud's words and errors into the domain's. It decides nothing and stores nothing that only it
knows.
"""
