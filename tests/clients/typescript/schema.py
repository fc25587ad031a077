"""Writes the types of the TypeScript client again, from the OpenAPI document: `make clients`."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bridge.cli.assembly import assemble
from bridge.http.app import create_app
from bridge.settings.settings import Settings
from tests.clients.node import install, run, why_no_node

PACKAGE: Final = Path(__file__).parents[3] / "clients" / "typescript"
SCHEMA: Final = PACKAGE / "src" / "schema.ts"
# A client names a topic with a namespace in one part of the path: `shop%2Forders`.
_SECOND_FORM: Final = "/v1/namespaces/"


def written(document: dict[str, Any]) -> str:
    """The document's types in TypeScript. Raises `Failed`: openapi-typescript refused the document."""
    paths = {path: methods for path, methods in document["paths"].items() if not path.startswith(_SECOND_FORM)}
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "openapi.json"), Path(folder, "schema.ts")
        source.write_text(json.dumps({**document, "paths": paths}))
        # A field with a default may be left out of a request.
        options = ("--default-non-nullable", "false", "--output", str(target))
        run("npx", "openapi-typescript", str(source), *options, folder=PACKAGE)
        return target.read_text()


def main() -> None:
    """Writes the file. Ends with a message if that is impossible."""
    if why := why_no_node() or install(PACKAGE):
        raise SystemExit(f"make clients: {why}")
    document = create_app(assemble(Settings())).app.openapi()
    SCHEMA.write_text(written(document))
    print(f"make clients: wrote {SCHEMA}")


if __name__ == "__main__":
    main()
