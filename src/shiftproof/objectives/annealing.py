"""Penalties that start small, or a network would satisfy them before it has learnt anything."""

from torch import Tensor

__all__ = ["penalised"]


def penalised(error: Tensor, penalty: Tensor, weight: float, anneal: int, step: int) -> Tensor:
    """The error plus the weighted penalty; the weight is at most 1 for `anneal` steps.

    A sum with a weight above 1 is divided by it: the learning rate keeps its meaning.

    >>> import torch
    >>> one = torch.tensor(1.0)
    >>> penalised(one, one, 100.0, 10, step=9), penalised(one, one, 100.0, 10, step=10)
    (tensor(2.), tensor(1.0100))
    """
    now = weight if step >= anneal else min(weight, 1.0)
    return (error + now * penalty) / max(now, 1.0)
