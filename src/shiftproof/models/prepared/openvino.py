"""The optional OpenVINO backend (extra `fast`): the same network, compiled for this processor."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError, UsageError

__all__ = ["compile_for_openvino"]


def compile_for_openvino(model: nn.Module, example: Tensor, precision: str) -> tuple[Callable[[Tensor], Tensor], str]:
    """A function from inputs of the example's shape to logits, on one thread, and what it was compiled by.

    OpenVINO chooses a precision of its own unless told, and a certificate is of the precision that was evaluated: it is
    set, and read back.
    """
    import openvino as ov
    import openvino.properties as properties
    from openvino.properties import hint

    wanted = {"f32": ov.Type.f32, "bf16": ov.Type.bf16}[precision]
    try:
        with warnings.catch_warnings():
            # it traces by a part of torch that torch has begun to warn about
            warnings.simplefilter("ignore")
            network = ov.convert_model(model, example_input=example, input=[list(example.shape)])
        settings = {hint.inference_precision: wanted, properties.inference_num_threads: 1, properties.num_streams: 1}
        # it would pin its thread to the first core, in every worker to the same one
        settings[hint.enable_cpu_pinning] = False
        compiled = ov.Core().compile_model(network, "CPU", settings)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(f"OpenVINO can't compile the model: {reason}") from error
    used = compiled.get_property(hint.inference_precision)
    if used != wanted:
        raise UsageError(f"OpenVINO would compute in {used.to_string()}, not in {precision}, on this processor")
    request = compiled.create_infer_request()

    def run(inputs: Tensor) -> Tensor:
        contiguous: Any = inputs.contiguous().numpy()
        # the network has one fixed shape: what is missing is padded, and its logits are dropped
        missing = len(example) - len(contiguous)
        if missing:
            contiguous = np.concatenate([contiguous, np.zeros((missing, *contiguous.shape[1:]), np.float32)])
        logits = request.infer({0: contiguous}, share_inputs=True)[0]
        return torch.from_numpy(np.array(logits[: len(inputs)], np.float32))

    return run, f"OpenVINO {ov.__version__.split('-')[0]}"
