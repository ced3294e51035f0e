"""Nodes that Karpenter launches: a NodeClaim of its own for each rental, whatever cloud Karpenter knows."""
