"""What is learned of the nodes of a pool."""
