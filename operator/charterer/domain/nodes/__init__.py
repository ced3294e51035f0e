"""What is known of nodes as such, whoever rents them."""
