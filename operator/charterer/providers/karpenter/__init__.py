"""Nodes that Karpenter launches: one NodeClaim for each rental, on any cloud that Karpenter knows."""
