"""Device models and schemes: what there is to choose from."""

from __future__ import annotations

import json
import os
from typing import Any

from . import _command, _native


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

    @classmethod
    def measure(
        cls,
        path: str | os.PathLike[str] | None = None,
        output: str | os.PathLike[str] = "measured.toml",
        *,
        seconds: int = 30,
        model: str | None = None,
    ) -> Device:
        """Reads a device or a large file for about so many ``seconds`` and writes a preset file that behaves like it, the ``output``:
        what ``forerun device measure`` does, which it runs. ``model`` measures a preset in virtual time instead.

        Raises ``OptionError`` where neither or both are given, ``UnsupportedError`` where the page cache cannot be passed by, and
        ``ForerunError`` for what cannot be read or written.
        """
        words = ["device", "measure", f"--output={os.fspath(output)}", f"--time={seconds}"]
        words += [] if model is None else [f"--model={model}"]
        words += [] if path is None else ["--", os.fspath(path)]
        _command.told(words)
        return cls(os.fspath(output))

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
