"""Device models and schemes: what there is to choose from."""

from __future__ import annotations

import json
from typing import Any

from . import _native


class Device:
    """A model of a member device, by the name of a preset or the path of a preset file.

    Raises ``DeviceError`` for what is neither. ``forerun.devices()`` lists the presets.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.spec: dict[str, Any] = json.loads(_native.device(name))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"forerun.Device({self.name!r})"

    @staticmethod
    def presets() -> list[str]:
        """The names of the shipped presets."""
        return [device["name"] for device in devices()]


def devices() -> list[dict[str, Any]]:
    """The shipped presets: ``name``, ``about``, ``sources``, and ``bytes``, the capacity. As ``forerun device list --json``."""
    return json.loads(_native.devices())["devices"]


def schemes() -> list[dict[str, Any]]:
    """The schemes: ``name``, ``layer``, ``about``, ``source`` and ``parameters``. As ``forerun schemes --json``."""
    return json.loads(_native.schemes())["schemes"]
