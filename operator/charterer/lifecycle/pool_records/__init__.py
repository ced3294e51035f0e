"""What a pool has, and what its record learns of its nodes."""
