"""Convolutions with what follows them as one operator of oneDNN, the library in which torch computes convolutions.

As torch runs a network, a convolution and the sum with a shortcut are passes through memory of their own, and weights
are brought into the library's order at every call. The operators here are those that torch's compiler emits: weights
are packed once, and the sum is done while a result is still in a register. They compute the same bits. The library's
ReLU does not: it makes 0 of what is not a number, so that a model which gives such values would not be noticed. ReLU is
torch's own, in place.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch
from torch import Tensor, fx, nn

from shiftproof.models.altered import altered

__all__ = ["FusedConv", "fuse"]

_SUMS = (operator.add, torch.add)


def fuse(rest: fx.GraphModule, inputs: Tensor) -> tuple[fx.GraphModule, int] | None:
    """A copy with fused convolutions, and how many; None if there is none to fuse, or this torch can't.

    `inputs` are as many as the network sees at a time: weights are packed for them, and right for any other number.
    ReLU has to be in place already (`torch.relu_`, where nobody else reads its input). What is not a plain `nn.Conv2d`
    in float32 with zeros around its input is left alone.
    """
    if not _available():
        return None
    fused = fx.GraphModule(rest, copy.deepcopy(rest.graph))
    shapes = _Shapes(fused)
    shapes.run(inputs.clone())
    count = 0
    for node in list(fused.graph.nodes):
        conv, source = _layer(fused, node), node.args[0] if len(node.args) == 1 and not node.kwargs else None
        if not isinstance(conv, nn.Conv2d) or not _is_plain(conv) or not isinstance(source, fx.Node):
            continue
        end, read = node, [source]
        if (other := _shortcut(fused, node, shapes.of)) is not None:
            end, read = node.next, [source, other]
        relu = _only_reader(end)
        last = relu if relu is not None and relu.target is torch.relu_ else end
        name = f"fused_{count}"
        fused.add_submodule(name, FusedConv(conv, shapes.of[source], relu=last is not end))
        with fused.graph.inserting_before(end):
            together = fused.graph.call_module(name, tuple(read))
        shapes.of[together] = shapes.of[end]
        last.replace_all_uses_with(together)
        for old in dict.fromkeys((last, end, node)):
            fused.graph.erase_node(old)
        count += 1
    if not count:
        return None
    fused.delete_all_unused_submodules()
    fused.graph.lint()
    fused.recompile()
    return fused, count


class FusedConv(nn.Module):
    """A convolution with packed weights, then the sum with a second input if there is one, then ReLU if asked.

    The sum is written over the second input.
    """

    def __init__(self, conv: nn.Conv2d, input_shape: tuple[int, ...], *, relu: bool) -> None:
        super().__init__()
        self._geometry: tuple[Any, ...] = (list(conv.padding), list(conv.stride), list(conv.dilation), conv.groups)
        weight = conv.weight.detach()
        self._weight = torch.ops.mkldnn._reorder_convolution_weight(weight, *self._geometry, list(input_shape))
        self._bias = None if conv.bias is None else conv.bias.detach()
        self._relu = relu

    def forward(self, inputs: Tensor, other: Tensor | None = None) -> Tensor:
        """N x C x H x W, and what the result is added to."""
        # as torch does for weights that have their channels last; with them first it is twice as slow
        inputs = inputs.contiguous(memory_format=torch.channels_last)
        library, packed = torch.ops.mkldnn, (self._weight, self._bias, *self._geometry)
        result: Tensor
        if other is None:
            result = library._convolution_pointwise(inputs, *packed, "none", [], "")
        else:
            result = library._convolution_pointwise_.binary(other, inputs, *packed, "add", 1.0, None, [], "")
        return result.relu_() if self._relu else result


_NEW = (nn.Conv2d, nn.BatchNorm2d, FusedConv)
"""Layers whose output shares no memory with an input that anybody else reads."""


class _Shapes(fx.Interpreter):
    """The shape of every tensor that a network computes on the way."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.of: dict[fx.Node, tuple[int, ...]] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, Tensor):
            self.of[n] = tuple(result.shape)
        return result


def _available() -> bool:
    """Whether this torch has the operators, and nobody has switched the library off."""
    library = torch.backends.mkldnn
    names = ("_convolution_pointwise", "_convolution_pointwise_", "_reorder_convolution_weight")
    return (
        bool(library.is_available())  # type: ignore[no-untyped-call]
        and bool(getattr(library, "enabled", True))
        and all(hasattr(torch.ops.mkldnn, name) for name in names)
    )


def _layer(network: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    return network.get_submodule(str(node.target)) if node.op == "call_module" else None


def _is_plain(conv: nn.Conv2d) -> bool:
    padded = conv.padding_mode == "zeros" and not isinstance(conv.padding, str)
    return type(conv) is nn.Conv2d and padded and conv.weight.dtype == torch.float32 and not altered(conv)


def _only_reader(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _shortcut(network: fx.GraphModule, conv: fx.Node, shapes: dict[fx.Node, tuple[int, ...]]) -> fx.Node | None:
    """What a convolution's output is added to, if the sum may be written over it.

    The sum comes next, so that nothing between the two changes what is added; everybody else who reads that has done
    so before, and keeps no view of it; and it is not the convolution's own input. A convolution of several groups with
    a bias adds in another order there, so that bits would differ.
    """
    layer = _layer(network, conv)
    assert isinstance(layer, nn.Conv2d)
    total = _only_reader(conv) if layer.groups == 1 else None
    if total is None or total is not conv.next or total.target not in _SUMS or total.kwargs or len(total.args) != 2:
        return None
    other = total.args[1] if total.args[0] is conv else total.args[0]
    if not isinstance(other, fx.Node) or other is conv or other in conv.args:
        return None
    nodes = list(network.graph.nodes)
    earlier = [user for user in other.users if user is not total]
    read_before = all(nodes.index(user) < nodes.index(total) and _is_new(network, user) for user in earlier)
    return other if read_before and _is_new(network, other) and shapes.get(other) == shapes.get(conv) else None


def _is_new(network: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node gives a tensor of its own, which shares no memory with anything that is read elsewhere."""
    if node.target is torch.relu_:
        (source,) = node.all_input_nodes
        return _is_new(network, source) and _only_reader(source) is node
    return type(_layer(network, node)) in _NEW or (node.op == "call_function" and node.target in _SUMS)
