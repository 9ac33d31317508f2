"""Modules that do not compute what their class says."""

from torch import nn

__all__ = ["altered"]


def altered(module: nn.Module) -> bool:
    """Whether hooks or a `forward` of its own make one module differ from others of its class."""
    return bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))
