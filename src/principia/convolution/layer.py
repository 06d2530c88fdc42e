r"""The convolutional layer: one small kernel for every place.

(The story comes with the page.)

$$ y_{k,i,j} = b_k+\sum_{c,p,q}w_{k,c,p,q}\,x_{c,\,si+p,\,sj+q} $$

Symbols:
    $x, y$: pictures that come in and go out

References:
    LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document
        recognition. Proc. IEEE 86. doi:10.1109/5.726791
"""

__all__ = ["multiply_adds"]

from contextlib import ExitStack

import torch
from torch import Tensor, nn

from principia.lab.params import checked
from principia.lab.training import evaluated

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
Transposed = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d


@checked
@torch.no_grad()
def multiply_adds(model: nn.Module, shape: tuple[int, ...]) -> dict[str, int]:
    """Counts the multiplications of one sample in each convolution and linear layer, by name.

    A weight of a convolution is used once at every place of its map: of the outputs, or of the
    inputs where it is transposed. Nothing is counted for biases, normalization and pooling. A
    model on the meta device costs no memory.

    Args:
        model: The network.
        shape: Of one sample, (C, H, W).

    Example:
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 10))
        >>> multiply_adds(net, (3, 8, 8))
        {'0': 7776, '2': 2880}
    """
    found: dict[str, int] = {}
    with ExitStack() as hooks:
        for name, layer in model.named_modules():
            if isinstance(layer, Convolution | Transposed | nn.Linear):

                def look(
                    layer: nn.Module, inputs: tuple[Tensor, ...], y: Tensor, name: str = name
                ) -> None:
                    uses = _uses(layer, inputs[0], y)
                    found[name] = found.get(name, 0) + layer.weight.numel() * uses

                hooks.enter_context(layer.register_forward_hook(look))
        first = next(model.parameters())
        with evaluated(model):
            model(torch.zeros(1, *shape, dtype=first.dtype, device=first.device))
    return found


def _uses(layer: nn.Module, x: Tensor, y: Tensor) -> int:
    """Count how often one weight is used for a sample."""
    if isinstance(layer, nn.Linear):
        return y.numel() // layer.out_features
    places = x if isinstance(layer, Transposed) else y
    return places[0, 0].numel()
