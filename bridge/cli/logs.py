"""Sets up logging: one named event a line, with the id of its request, as JSON or for a terminal, without bodies."""

from __future__ import annotations

import logging
import sys

import structlog

from bridge.model import log_scope
from bridge.settings.settings import Settings


def configure(settings: Settings) -> None:
    """Sets up structlog on standard error. The records of standard loggers (uvicorn's, aiormq's) look the same."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _name_request,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if settings.log_format == "json" else structlog.dev.ConsoleRenderer()
    )
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)
    # uvicorn warns of each client that does not speak HTTP, so clients could fill the disk. A metric counts them.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    # A collector that is away would be in the log at each retry, and not once for each batch of spans.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)


def _name_request(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if request_id := log_scope.current():
        event.setdefault("request_id", request_id)
    return event
