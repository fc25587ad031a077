"""Tests how roles are parsed and shared among the processes of one `serve`."""

import pytest

from bridge.settings.roles import EVERY_ROLE, Process, Role, parse_roles, processes

API, CHECKPOINT, PUSH = Role


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("api,checkpoint,push", {API, CHECKPOINT, PUSH}),
        ("checkpoint", {CHECKPOINT}),
        (" push , api,push", {API, PUSH}),
    ],
)
def test_roles_are_separated_by_commas_in_any_order(text: str, roles: set[Role]) -> None:
    assert parse_roles(text) == roles


@pytest.mark.parametrize("text", ["", "api,", "apis", "API"])
def test_unknown_role_is_refused_with_a_list_of_the_known(text: str) -> None:
    with pytest.raises(ValueError, match="the roles are api, checkpoint, push"):
        parse_roles(text)


@pytest.mark.parametrize(
    ("workers", "roles", "expected"),
    [
        (1, EVERY_ROLE, [("api-1", EVERY_ROLE)]),
        (1, {CHECKPOINT}, [("checkpoint-1", {CHECKPOINT})]),
        (2, EVERY_ROLE, [("api-1", {API, PUSH}), ("checkpoint-1", {CHECKPOINT})]),
        (3, EVERY_ROLE, [("api-1", {API, PUSH}), ("api-2", {API, PUSH}), ("checkpoint-1", {CHECKPOINT})]),
        (2, {API, CHECKPOINT}, [("api-1", {API}), ("checkpoint-1", {CHECKPOINT})]),
        (2, {API, PUSH}, [("api-1", {API, PUSH}), ("api-2", {API, PUSH})]),
        (2, {CHECKPOINT, PUSH}, [("checkpoint-1", {CHECKPOINT, PUSH}), ("checkpoint-2", {CHECKPOINT, PUSH})]),
        (3, {PUSH}, [("push-1", {PUSH}), ("push-2", {PUSH}), ("push-3", {PUSH})]),
    ],
)
def test_roles_are_shared_among_worker_processes(
    workers: int, roles: set[Role], expected: list[tuple[str, set[Role]]]
) -> None:
    assert processes(workers, roles) == [Process(name, frozenset(share)) for name, share in expected]
