"""Writes docs/operating/settings.md and the examples in deploy/ from the settings: `make docs`."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from posixpath import normpath
from typing import get_args

from bridge.settings.kinds import Unit
from bridge.settings.reading import SECRETS
from bridge.settings.settings import Settings
from bridge.settings.shown import written
from tests.docs.documents import PROJECT

PAGE = PROJECT / "docs" / "operating" / "settings.md"
ENV_EXAMPLE = PROJECT / "deploy" / ".env.example"
TOML_EXAMPLE = PROJECT / "deploy" / "delaybridge.toml"

_LINK = re.compile(r"\[([^\]]*)\]\(([^)]*)\)")

INTRODUCTION = """\
# Settings

A setting comes from one of these places. A later one wins:

| source | where |
| --- | --- |
| `default` | the [table](#table) |
| `file` | the [settings file](#the-settings-file) of `BRIDGE_CONFIG` or `--config` |
| `secret` | a [file of a secret](#passwords): in the folder `BRIDGE_SECRETS_DIR`, or named by a variable |
| `credential` | a file in the folder of [systemd's credentials](systemd.md#credentials) |
| `environment` | the variable, such as `BRIDGE_AMQP_URL` |

`delaybridge config show` lists each setting with its value and its source, and masks passwords. `delaybridge config
check` reads everything as `serve` does, and ends with code 2 if a setting is wrong.

A bridge reads its settings when it starts. Give all bridges of a Redis the same ones, and restart them [one by
one](runbook.md#restarts-one-by-one); messages wait meanwhile. Behind another prefix or number of index buckets they are
not found.

A duration is a number of milliseconds, or has one of these forms: `1500ms`, `90s`, `15m`, `2h`, `7d`, `1h30m`,
`PT1H30M`.

A variable, key or file of secrets that is no setting ends every command that needs settings with code 2. The bridge
passes over `BRIDGE_TEST_…` and the variables that Kubernetes sets for a Service whose name begins with `bridge`.

`delaybridge topology`, `token` and `audit` ask the servers of a running `make run` if the environment names neither a
server nor a file.

`BRIDGE_URL`, `BRIDGE_TOKEN`, `BRIDGE_CA`, `BRIDGE_CERT` and `BRIDGE_KEY` are for [client
commands](../cli.md#which-bridge), and no settings of a bridge. The variables `OTEL_…` switch
[spans](tracing.md#variables) on.

## The settings file

The keys of the TOML file are the names of the variables in lower case, without `BRIDGE_`. A value is a text, a number,
`true` or `false`. A list becomes words with commas between them, and a table becomes JSON:

```toml
roles = ["api", "push"]
lease = "1m"
amqp_url_file = "/etc/delaybridge/amqp_url"

[pools.eu]
amqp_url = "amqps://delaybridge@rabbit.eu"
redis_url = "rediss://redis.eu"
namespaces = ["shop"]
```

`deploy/delaybridge.toml` has every key with its default, and `deploy/.env.example` every variable. `make run` reads
ports and servers from the environment alone.

## Table

`make docs` writes this table and both examples from `bridge/settings/settings.py`.

| variable | default | unit | meaning |
| --- | --- | --- | --- |
"""

REST = """
## Further variables

`make run` reads these settings and two more. `BRIDGE_LOCAL_DIR` is the folder of the data, `.local` by default.
`PYTHON` is the interpreter that makes `.venv`. `make run` writes all addresses to `.local/run.json`.

## Passwords

No log, answer or error shows passwords of URLs. Percent-encode each character of a password that is neither a letter
nor a digit. Every user of the machine can read the options of a command, so give no password there.
"""

SECRETS_TEXT = """\
These settings hold passwords: {}. Give them as variables, or better as files. A file in the folder
`BRIDGE_SECRETS_DIR` has the variable's name in lower case: `bridge_amqp_url`. Or the variable `BRIDGE_AMQP_URL_FILE`,
or the key `amqp_url_file`, names the file. This works for every setting. The bridge removes white space at both ends
of a file. A setting and its file may not be given in the same place."""

ENV_HEAD = """\
# Every setting as a variable, with its default. Copy this file, and remove the # before those that you change.
# For `docker run --env-file`, `env_file` of compose, and `EnvironmentFile` of systemd.
"""

TOML_HEAD = """\
# Every setting as a key, with its default. Copy this file, and remove the # before those that you change.
# For `delaybridge --config FILE serve`, or the variable BRIDGE_CONFIG. The environment wins over this file.
"""


def files() -> dict[str, str]:
    """The content of each file, by its path from the project's folder."""
    contents = {PAGE: _page(), ENV_EXAMPLE: _env_example(), TOML_EXAMPLE: _toml_example()}
    return {str(path.relative_to(PROJECT)): "".join(lines) for path, lines in contents.items()}


def _page() -> Iterator[str]:
    yield INTRODUCTION
    for name, meaning in _meanings().items():
        yield f"| `{_variable(name)}` | `{_default(name) or 'none'}` | {_unit(name)} | {meaning} |\n"
    secrets = ", ".join(f"`{_variable(name)}`" for name in Settings.model_fields if name in SECRETS)
    yield f"{REST}\n{textwrap.fill(SECRETS_TEXT.format(secrets), 120)}\n"


def _env_example() -> Iterator[str]:
    yield ENV_HEAD
    for name, meaning in _meanings().items():
        yield f"\n{_comment(name, meaning)}#{_variable(name)}={_default(name)}\n"


def _toml_example() -> Iterator[str]:
    yield TOML_HEAD
    for name, meaning in _meanings().items():
        default = written(name, Settings.model_fields[name].default)
        yield f"\n{_comment(name, meaning)}#{name} = {'' if default is None else json.dumps(default)}".rstrip() + "\n"


def _meanings() -> dict[str, str]:
    """The meaning of each setting: the text below its field."""
    (definition,) = ast.parse(inspect.getsource(Settings)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(meaning.value.value.split())
        for field, meaning in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(meaning, ast.Expr)
        and isinstance(meaning.value, ast.Constant)
        and isinstance(meaning.value.value, str)
    }


def _variable(name: str) -> str:
    return f"BRIDGE_{name.upper()}"


def _default(name: str) -> str:
    default = written(name, Settings.model_fields[name].default)
    return "" if default is None else default if isinstance(default, str) else json.dumps(default)


def _unit(name: str) -> str:
    """The unit of the setting's kind, or the values that it lists."""
    field = Settings.model_fields[name]
    units = [one.name for one in field.metadata if isinstance(one, Unit)]
    if units:
        return units[-1]
    if field.annotation is bool:
        return "true, false"
    return ", ".join(
        value
        for part in (field.annotation, *get_args(field.annotation))
        for value in get_args(part)
        if isinstance(value, str)
    )


def _comment(name: str, meaning: str) -> str:
    """The unit and the meaning as a comment, with paths in place of links."""
    plain = _LINK.sub(lambda link: f"{link[1]} ({normpath(f'docs/operating/{link[2]}')})", meaning)
    return "".join(f"# {line}\n" for line in textwrap.wrap(f"{plain} [{_unit(name)}]", 117, break_on_hyphens=False))


if __name__ == "__main__":
    for path, content in files().items():
        (PROJECT / path).write_text(content)
