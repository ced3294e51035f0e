"""What is planned instead of what is: the manifests of ``-f``, prices and amounts."""
