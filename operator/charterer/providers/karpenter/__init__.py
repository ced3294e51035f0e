"""Nodes that Karpenter launches: one NodeClaim of its own for each rental, whatever cloud Karpenter knows."""

from charterer.providers.karpenter.provider import KarpenterCloud

__all__ = ["KarpenterCloud"]
