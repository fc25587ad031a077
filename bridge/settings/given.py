"""Collects the settings that an operator has given, as texts, and the source of each setting. This module checks no
value.

An operator can give a setting in four places. If several places have the setting, the last place in the list counts.
The list shows the places for the setting `lease`:

    file          the key `lease` of the TOML file that BRIDGE_CONFIG names
    secret        the file `bridge_lease` in the folder that BRIDGE_SECRETS_DIR names
    credential    the file `bridge_lease` in the folder that systemd names (CREDENTIALS_DIRECTORY)
    environment   the variable BRIDGE_LEASE

In place of the value, the variable BRIDGE_LEASE_FILE or the key `lease_file` can name a file that holds the value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from tomllib import TOMLDecodeError, loads
from typing import Any, Final, Literal

from bridge.model.errors import WrongSettings
from bridge.settings.unknown import CONFIG, CREDENTIALS_DIR, PREFIX, SECRETS_DIR, complaints_about_unknown_keys

Place = Literal["file", "secret", "credential", "environment"]

_FILE: Final = "_file"


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """A setting as text. `place`: the kind of its source. `origin`: the name of the variable, the path of the file, or
    the path of the TOML file and the key."""

    text: str
    place: Place
    origin: str


def given_settings(environment: Mapping[str, str], settings: Collection[str]) -> dict[str, Given]:
    """Returns the given settings by name. `settings`: the names of all settings, in lower case.

    Raises:
        WrongSettings: a file can't be read, a TOML key is unknown, or one place has both a value and a file
            for a setting.
    """
    variables = {name.upper(): value for name, value in environment.items()}
    found: dict[str, Given] = {}
    if config := variables.get(CONFIG):
        found |= _of_config(Path(config), settings)
    if folder := variables.get(SECRETS_DIR):
        found |= _of_folder(Path(folder), settings, "secret", SECRETS_DIR)
    if folder := variables.get(CREDENTIALS_DIR):
        found |= _of_folder(Path(folder), settings, "credential", CREDENTIALS_DIR)
    found |= _of_pairs(
        {name.removeprefix(PREFIX).lower(): value for name, value in variables.items() if name.startswith(PREFIX)},
        settings,
        lambda name: f"{PREFIX}{name.upper()}",
        "environment",
    )
    return found


def _of_config(file: Path, settings: Collection[str]) -> Iterator[tuple[str, Given]]:
    try:
        keys = loads(_read(file, CONFIG))
    except TOMLDecodeError as error:
        raise WrongSettings([f"{file}: is no TOML: {error}"]) from None
    if unknown := complaints_about_unknown_keys(file, keys, settings):
        raise WrongSettings(unknown)
    texts = {key: _as_text(value) for key, value in keys.items()}
    return _of_pairs(texts, settings, lambda key: f"{file}: {key}", "file")


def _of_pairs(
    pairs: Mapping[str, str], settings: Collection[str], origin_of: Callable[[str], str], place: Place
) -> Iterator[tuple[str, Given]]:
    """Yields the settings in `pairs`, which has texts by name. For a name that ends with `_file`, the text is the path
    of the file with the value. `origin_of`: returns the variable, the file, or the file and key of a name."""
    for name in settings:
        path = pairs.get(f"{name}{_FILE}")
        if path and name in pairs:
            raise WrongSettings(
                [f"{origin_of(name)}: is set, and so is its file, {origin_of(name + _FILE)}; unset one"]
            )
        if path:
            yield name, _of_file(Path(path), "secret", origin_of(name + _FILE))
        elif name in pairs:
            yield name, Given(text=pairs[name], place=place, origin=origin_of(name))


def _of_folder(folder: Path, settings: Collection[str], place: Place, named_by: str) -> Iterator[tuple[str, Given]]:
    try:
        files = {path.name.lower(): path for path in folder.iterdir()}
    except OSError as error:
        raise WrongSettings([f"{named_by}: {folder}: {error.strerror}"]) from None
    for name in settings:
        if path := files.get(f"{PREFIX}{name}".lower()):
            yield name, _of_file(path, place, named_by)


def _of_file(file: Path, place: Place, named_by: str) -> Given:
    return Given(text=_read(file, named_by).strip(), place=place, origin=str(file))


def _read(file: Path, named_by: str) -> str:
    try:
        return file.read_text()
    except OSError as error:
        raise WrongSettings([f"{named_by}: {file}: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise WrongSettings([f"{named_by}: {file}: is not UTF-8"]) from None


def _as_text(value: Any) -> str:
    """Returns a TOML value as the text that an environment variable would have. A list of strings becomes its items
    with commas between them. A table, a bool or another list becomes JSON."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    if isinstance(value, bool | list | dict):
        return dumps(value, default=str)
    return str(value)
