"""What of torch a saved model may name: modules, activations and number types; nothing else."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

__all__ = ["constructor_settings", "torch_parts"]

ACTIVATIONS = {  # functions of a tensor, by the module of torch that has them
    torch: (
        "abs", "arctan", "celu", "cos", "erf", "exp", "relu", "selu", "sigmoid", "sign", "sin",
        "square", "tanh",
    ),
    nn.functional: (
        "celu", "elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid",
        "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softsign", "tanh",
        "tanhshrink",
    ),
}
STATE_SAYS_IT = ("device", "dtype")  # parameters of constructors that the weights tell again


@functools.cache
def torch_parts() -> Mapping[str, Any]:
    """Give what may be named, by name.

    Example:
        >>> torch_parts()["torch.tanh"] is torch.tanh, "torch.load" in torch_parts()
        (True, False)
    """
    found: dict[str, Any] = {
        f"{home.__name__}.{name}": getattr(home, name)
        for home, names in ACTIVATIONS.items() for name in names
    }
    for name, one in vars(nn).items():
        ours = isinstance(one, type) and issubclass(one, nn.Module) and one is not nn.Module
        if ours and one.__module__.startswith("torch.nn.modules."):
            found[f"torch.nn.{name}"] = one
    found |= {str(one): one for one in vars(torch).values() if isinstance(one, torch.dtype)}
    return found


def constructor_settings(module: nn.Module) -> dict[str, Any] | None:
    """Read off a module of torch what its constructor was given; None where it does not tell.

    Example:
        >>> constructor_settings(nn.Linear(2, 3, bias=False))
        {'in_features': 2, 'out_features': 3, 'bias': False}
    """
    if isinstance(module, nn.Sequential):
        named = module._modules
        in_order = list(named) == [str(place) for place in range(len(named))]
        return {"args": tuple(module)} if in_order else None
    if isinstance(module, nn.ModuleList):
        return {"modules": list(module)}
    if isinstance(module, nn.ModuleDict):
        return {"modules": dict(module)}
    settings = {}
    for name, parameter in inspect.signature(type(module).__init__).parameters.items():
        if name in ("self", *STATE_SAYS_IT):
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            if vars(module).keys() - vars(nn.Module()).keys() or module._parameters:
                return None
            continue  # it takes anything and keeps nothing, as Identity does
        if not (name in vars(module) or name in module._parameters):
            if parameter.default is parameter.empty:
                return None
            continue  # an argument that leaves nothing behind, such as first weights
        value = getattr(module, name)
        given_as_flag = isinstance(value, nn.Parameter) or name in module._parameters
        settings[name] = value is not None if given_as_flag else value
    return settings
