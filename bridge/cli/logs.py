"""Sets up logging: one named event a line, with the id of its request, as JSON or for a terminal, without bodies."""

from __future__ import annotations

import logging
import sys
from typing import Final

import structlog

from bridge.model import log_scope
from bridge.model.errors import BrokerUnfit, StoreUnfit
from bridge.settings.settings import Settings

_REFUSALS: Final = (BrokerUnfit, StoreUnfit)


def configure(settings: Settings) -> None:
    """Sets up structlog on standard error. Python's standard loggers (uvicorn's) also write lines in the same form."""
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
    quiet_libraries()


def quiet_libraries() -> None:
    """Silences loggers of libraries whose lines repeat events that the bridge itself logs or counts."""
    # uvicorn warns of each client that does not speak HTTP, so clients could fill the disk. A metric counts them.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("uvicorn.error").addFilter(_is_no_reset)
    logging.getLogger("uvicorn.error").addFilter(_is_no_refused_start)
    # OpenTelemetry logs an unreachable collector at each retry, and not once for each batch of spans.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)
    # aiormq logs an error at each try to connect, and also raises that error, which the commands print.
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)


def _is_no_reset(record: logging.LogRecord) -> bool:
    """Returns False for log records about a client that reset its connection in the middle of an answer, and True for
    all others.

    uvloop closes the transport at the first write after the reset. uvicorn takes the error of the next write for an
    error of the application.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, RuntimeError) and "the handler is closed" in str(error))


def _is_no_refused_start(record: logging.LogRecord) -> bool:
    """Returns False for uvicorn's log records about a start that the bridge itself refused, and True for all others.

    uvicorn logs the traceback of each failed start, and then a line that the start failed. The bridge has already
    logged the reason as `service.refused`.
    """
    says = record.getMessage()
    return says != "Application startup failed. Exiting." and not (
        says.startswith("Traceback") and any(f"{kind.__module__}.{kind.__name__}: " in says for kind in _REFUSALS)
    )


def _name_request(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if request_id := log_scope.current():
        event.setdefault("request_id", request_id)
    return event
