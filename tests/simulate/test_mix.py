"""Draws mixes without a simulation."""

from __future__ import annotations

from random import Random

from tests.simulate.mix import Mix, some
from tests.simulate.topics import USED
from tests.torture.topics import PULLED

MIXES = [Mix.drawn(Random(seed)) for seed in range(100)]


def test_seed_decides_the_mix() -> None:
    assert Mix.drawn(Random(7)) == MIXES[7] != MIXES[8]


def test_seed_uses_few_topics_and_all_seeds_use_all() -> None:
    assert all(PULLED[0] in mix.topics for mix in MIXES)
    assert sum(len(mix.topics) for mix in MIXES) / len(MIXES) < len(USED) / 2
    assert {topic for mix in MIXES for topic in mix.topics} == {*USED}


def test_topics_of_a_mix_keep_their_order() -> None:
    (both,) = [mix for mix in MIXES if {*PULLED} <= mix.topics][:1]
    assert both.of((*PULLED, *PULLED, "unknown")) == (*PULLED, *PULLED)


def test_each_kind_has_its_chance() -> None:
    random = Random(1)
    drawn = [kind for _ in range(1_000) for kind in some(random, ("a", "b"), 0.3)]
    assert 250 < drawn.count("a") < 350
    assert not some(random, ("a", "b"), 0.0)
