"""Reads the schedules of BRIDGE_SCHEDULES_FILE, which a bridge stores in Redis when it starts."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.cli.schedule_documents import BadScheduleFile, schedule_documents
from bridge.http import exact_json
from bridge.http.errors import TooLarge
from bridge.http.reading import read
from bridge.http.v1.schedules.definition import ScheduleRequest
from bridge.model.errors import BridgeError, InvalidRequest, WrongSettings
from bridge.service.schedules.definition import Spec
from bridge.settings.settings import Settings
from bridge.store.kept.schedules import MOST

_SETTING = "BRIDGE_SCHEDULES_FILE"


def declared_schedules(settings: Settings) -> Mapping[str, Spec]:
    """Returns the schedules of the file by name; an empty mapping if the setting names no file.

    Raises:
        WrongSettings: the file can't be read, or a schedule is wrong; the text names each.
    """
    if settings.schedules_file is None:
        return {}
    try:
        documents = schedule_documents(settings.schedules_file)
    except BadScheduleFile as error:
        raise WrongSettings([f"{_SETTING}: {error}"]) from None
    where = f"{_SETTING}: {settings.schedules_file}"
    if len(documents) > MOST:
        raise WrongSettings([f"{where}: has {len(documents)} schedules; at most {MOST} are kept"])
    found: dict[str, Spec] = {}
    complaints: list[str] = []
    for name, document in documents.items():
        try:
            found[name] = read(ScheduleRequest, exact_json.dumps(document)).spec(settings.max_body)
        except InvalidRequest as error:
            complaints += [f"{where}: {name}.{each.field}: {each.message}" for each in error.errors]
        except (BridgeError, TooLarge) as error:
            complaints.append(f"{where}: {name}: {error}")
    if complaints:
        raise WrongSettings(complaints)
    return found
