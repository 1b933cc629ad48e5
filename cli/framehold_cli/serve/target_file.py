"""The file that TARGET names. To find it imports nothing, so a wrong name is seen at once."""

from __future__ import annotations

from pathlib import Path

from framehold_core.errors import ConfigError


def named(target: str) -> Path | None:
    """The file that TARGET names, as `file.py` or `file.py:name`; None if TARGET names a module.

    Raises:
        ConfigError: there is no such file, it is not a Python file, or no module can have the name.
    """
    place = target.partition(":")[0]
    path = Path(place)
    # A file without a suffix may stand beside the module of its name.
    if not (path.suffix == ".py" or "/" in place or (path.suffix and path.is_file())):
        if not all(place.split(".")):
            raise ConfigError(
                f"TARGET {place!r} is no name of a module; nothing was started; name one as file.py or module:name"
            )
        return None
    if not path.is_file():
        raise ConfigError(f"TARGET {path} is not a file; nothing was started; name one as file.py or module:name")
    if path.suffix != ".py":
        raise ConfigError(
            f"TARGET {path} is not a Python file; nothing was started; name one as file.py or module:name"
        )
    return path
