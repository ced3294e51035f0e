"""What people look at, made of values: documents as text and as one HTML page, and pictures.

Knows the domain and the policy only, prints nothing and asks nobody; matplotlib is imported where a picture is drawn.
"""
