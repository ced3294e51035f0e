"""What two classes keep of their speeds on one GPU, from reports."""
