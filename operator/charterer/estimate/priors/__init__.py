"""What is expected of a class before it was measured: from other classes, from its model, from links of GPU types."""
