"""The books: what a step does to a balance, what each dollar was for, and what finished jobs taught.

Pure and exact: amounts are whole micro-dollars, parts add up to their whole; nothing here decides or carries out.
"""
