"""A planner's knowledge of job classes: exact curves, or what trainers reported so far.

Implementations of ``engine.knowledge``; no decisions.
"""
