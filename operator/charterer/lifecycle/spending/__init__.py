"""What rentals cost, by whom: on the rentals themselves, and in the record of costs."""
