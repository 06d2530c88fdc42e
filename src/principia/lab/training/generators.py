"""Torch's global generators, which layers like dropout draw from: forked, saved and restored."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from principia.lab.seeds import Seed

__all__ = ["generator_state", "seeded_generators", "set_generator_state"]


@contextmanager
def seeded_generators(seed: Seed, device: torch.device) -> Iterator[None]:
    """Fork torch's global generators and start them from the seed, for layers like dropout."""
    with torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=device.type):
        number = int(seed.child("layers"))
        # torch.manual_seed would also ask for every kind of device that is not there
        torch.default_generator.manual_seed(number)
        if device.type != "cpu":
            torch.get_device_module(device).manual_seed(number)
        yield


def generator_state(device: torch.device) -> dict[str, Tensor]:
    """Give the state of the global generators that layers on a device draw from."""
    own = {"cpu": torch.get_rng_state()}
    if device.type == "cpu":
        return own
    return {**own, device.type: torch.get_device_module(device).get_rng_state(device)}


def set_generator_state(device: torch.device, states: Mapping[str, Tensor]) -> None:
    """Take back what `generator_state` gave."""
    torch.set_rng_state(states["cpu"])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(states[device.type], device)
