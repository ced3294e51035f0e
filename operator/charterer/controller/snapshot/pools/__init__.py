"""What a pool offers, joined from what it declares, what its cloud says and what its nodes were."""
