"""Tests that items that arrive together are committed together."""

import asyncio

import pytest

from bridge.model import log_scope
from bridge.model.group_commit import GroupCommit


class Commits:
    """Records the groups, and holds each commit until its gate opens."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gates: list[asyncio.Future[None]] = []
        self.begun = asyncio.Event()

    async def __call__(self, items: list[int]) -> list[str]:
        self.groups.append(items)
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        self.begun.set()
        await gate
        return [f"<{item}>" for item in items]

    async def next_begins(self) -> None:
        await self.begun.wait()
        self.begun.clear()


def submit(group: GroupCommit[int, str], *items: int) -> list[asyncio.Task[str]]:
    return [asyncio.create_task(group.submit(item)) for item in items]


async def test_a_lone_item_is_committed_at_once() -> None:
    commits = Commits()
    group = GroupCommit(commits, most=10, at_once=1)
    (first,) = submit(group, 1)
    await commits.next_begins()

    assert commits.groups == [[1]]
    commits.gates[0].set_result(None)
    assert await first == "<1>"


async def test_items_that_arrive_during_a_commit_share_the_next_group() -> None:
    commits = Commits()
    group = GroupCommit(commits, most=2, at_once=1)
    tasks = submit(group, 1)
    await commits.next_begins()
    tasks += submit(group, 2, 3, 4)
    await asyncio.sleep(0)
    for _ in range(2):
        commits.gates[-1].set_result(None)
        await commits.next_begins()
    commits.gates[-1].set_result(None)

    assert await asyncio.gather(*tasks) == ["<1>", "<2>", "<3>", "<4>"]
    assert commits.groups == [[1], [2, 3], [4]]


async def test_no_more_than_the_allowed_groups_are_under_way_at_once() -> None:
    commits = Commits()
    group = GroupCommit(commits, most=10, at_once=2)
    tasks = submit(group, 1)
    await commits.next_begins()
    tasks += submit(group, 2)
    await commits.next_begins()
    tasks += submit(group, 3)
    await asyncio.sleep(0)

    assert commits.groups == [[1], [2]]
    commits.gates[1].set_result(None)
    await commits.next_begins()
    assert commits.groups == [[1], [2], [3]]
    for gate in (commits.gates[0], commits.gates[2]):
        gate.set_result(None)
    assert await asyncio.gather(*tasks) == ["<1>", "<2>", "<3>"]


async def test_an_error_reaches_every_item_of_its_group_and_no_later_group() -> None:
    commits = Commits()
    group = GroupCommit(commits, most=10, at_once=1)
    first = submit(group, 1)
    await commits.next_begins()
    second = submit(group, 2, 3)
    await asyncio.sleep(0)
    commits.gates[0].set_result(None)
    await commits.next_begins()
    third = submit(group, 4)
    await asyncio.sleep(0)
    commits.gates[1].set_exception(OSError("away"))
    await commits.next_begins()
    commits.gates[2].set_result(None)

    assert await first[0] == "<1>"
    for task in second:
        with pytest.raises(OSError, match="away"):
            await task
    assert await third[0] == "<4>"


async def test_a_cancelled_caller_removes_its_item_from_a_group_that_waits() -> None:
    commits = Commits()
    group = GroupCommit(commits, most=10, at_once=1)
    submit_first = submit(group, 1)
    await commits.next_begins()
    cancelled, other = submit(group, 2, 3)
    await asyncio.sleep(0)
    cancelled.cancel()
    commits.gates[0].set_result(None)
    await commits.next_begins()
    commits.gates[1].set_result(None)

    assert [await submit_first[0], await other] == ["<1>", "<3>"]
    assert commits.groups == [[1], [3]]
    assert cancelled.cancelled()


async def test_an_item_that_arrives_as_the_last_group_ends_is_committed() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def commit(items: list[int]) -> list[int]:
        await gate
        return items

    group = GroupCommit(commit, most=10, at_once=1)
    first = asyncio.create_task(group.submit(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    async def submit_with_the_end() -> int:
        await gate
        return await group.submit(2)

    second = asyncio.create_task(submit_with_the_end())
    await asyncio.sleep(0)
    gate.set_result(None)

    async with asyncio.timeout(10):
        assert [await first, await second] == [1, 2]


async def test_finish_waits_for_all_groups_under_way() -> None:
    commits = Commits()
    group = GroupCommit(commits, most=1, at_once=1)
    tasks = submit(group, 1, 2)
    await commits.next_begins()
    finishing = asyncio.create_task(group.finish())
    commits.gates[0].set_result(None)
    await commits.next_begins()

    assert not finishing.done()
    commits.gates[1].set_result(None)
    await finishing
    assert [task.result() for task in tasks] == ["<1>", "<2>"]
    await group.finish()


async def test_commit_of_one_item_names_its_request_and_a_larger_one_names_none() -> None:
    named: list[tuple[list[int], str]] = []
    begun, gate = asyncio.Event(), asyncio.Event()

    async def commit(items: list[int]) -> list[int]:
        named.append((items, log_scope.current()))
        begun.set()
        await gate.wait()
        return items

    group = GroupCommit(commit, most=2, at_once=1)

    async def submitted(item: int) -> int:
        log_scope.enter(f"request {item}")
        return await group.submit(item)

    tasks = [asyncio.create_task(submitted(1))]
    await begun.wait()
    tasks += [asyncio.create_task(submitted(item)) for item in (2, 3, 4)]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*tasks)

    assert named == [([1], "request 1"), ([2, 3], log_scope.NOBODY), ([4], "request 4")]
