"""Where a model's weights are, and copies of it elsewhere."""

from __future__ import annotations

import copy

import torch
from torch import nn

__all__ = ["CPU", "device_of", "on_device"]

CPU = torch.device("cpu")


def device_of(model: nn.Module) -> torch.device:
    """Where the model's weights are; the CPU for a model without any."""
    return next((one.device for one in model.parameters()), CPU)


def on_device(model: nn.Module, place: torch.device) -> nn.Module:
    """The model, if all of it is there already; else a copy of it there. The model itself is never moved.

    `cuda` is any of its devices.
    """
    held = [*model.parameters(), *model.buffers()]
    here = all(one.device.type == place.type and place.index in (None, one.device.index) for one in held)
    return model if here else copy.deepcopy(model).to(place)
