from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.fetch.batches import BatchWalk, batch_size
from protocol.fetch.walker import response_walker, walk_whole

from ..frames import RESPONSES, Golden

ONE_BATCH = [each for each in RESPONSES if each.name.endswith("-one")]
SIZES = st.lists(st.integers(26, 300), max_size=12)


def records(*sizes: int) -> bytes:
    """So many bytes of batches, by their headers; what follows is not looked at."""
    return b"".join(bytes(8) + (size - 12).to_bytes(4) + b"x" * (size - 12) for size in sizes)


def walked(size: int, pieces: list[tuple[int, int]], whole: bytes) -> BatchWalk:
    """What a walk of `size` bytes finds in these pieces of them."""
    walk = BatchWalk(size)
    for start, end in pieces:
        walk.look(b"??" + whole[start:end], 2 - start, 2 + end - start)
    return walk


@pytest.mark.parametrize("case", ONE_BATCH, ids=lambda case: case.name)
def test_a_batch_tells_its_size_in_every_message_format(case: Golden) -> None:
    (row,), _ = walk_whole(response_walker(case.version), case.frame, case.body_at, len(case.frame))
    assert batch_size(case.frame, row.records_at, len(case.frame)) == row.records_size
    assert batch_size(case.frame, row.records_at, row.records_at + 12) == row.records_size
    assert batch_size(case.frame, row.records_at, row.records_at + 11) == 0


@pytest.mark.parametrize(("length", "size"), [(-1, 0), (0, 0), (13, 0), (14, 26), (2**31 - 1, 2**31 + 11)])
def test_batch_lengths(length: int, size: int) -> None:
    batch = bytes(8) + length.to_bytes(4, "big", signed=True)
    assert batch_size(b"??" + batch, 2, 14) == size


@pytest.mark.parametrize(
    ("cut", "whole", "at", "next_bytes"),
    [
        (100, 1, 100, 0),  # exactly one batch: of the next one nothing is known
        (111, 1, 100, 0),  # not all of a header
        (112, 1, 100, 60),
        (159, 1, 100, 60),
        (160, 2, 160, 0),
        (172, 2, 160, 200),
        (50, 0, 0, 100),  # the first one is cut off itself
        (11, 0, 0, 0),
    ],
)
def test_what_is_cut_off_tells_the_size_of_the_next_batch(cut: int, whole: int, at: int, next_bytes: int) -> None:
    walk = walked(cut, [(0, cut)], records(100, 60, 200))
    assert (walk.whole, walk.at, walk.next_bytes, walk.is_over) == (whole, at, next_bytes, True)


@given(sizes=SIZES, cut=st.integers(0, 3000), ends=st.lists(st.integers(0, 3000), max_size=8))
def test_it_does_not_matter_in_what_pieces_records_come(sizes: list[int], cut: int, ends: list[int]) -> None:
    """A piece begins where the one before ended, or before it at the header that was not whole."""
    whole = records(*sizes)[:cut]
    at_once = walked(len(whole), [(0, len(whole))], whole)
    walk, start = BatchWalk(len(whole)), 0
    for end in [*sorted(min(end, len(whole)) for end in ends), len(whole)]:
        walk.look(whole[start:end], -start, end - start)
        start = min(end, walk.at) if not walk.is_over else end
    found = [(each.at, each.whole, each.largest_bytes, each.next_bytes, each.is_over) for each in (at_once, walk)]
    assert found[0] == found[1]


def test_nonsense_ends_the_walk() -> None:
    walk = walked(200, [(0, 200)], records(100) + bytes(100))
    assert (walk.at, walk.next_bytes, walk.is_over) == (100, 0, True)


@pytest.mark.parametrize(("sizes", "alike"), [((100, 100, 60), 100), ((26, 26, 200), 0), ((100,), 100), ((), 0)])
def test_batches_are_alike_if_the_largest_is_no_exception(sizes: tuple[int, ...], alike: int) -> None:
    whole = records(*sizes)
    assert walked(len(whole), [(0, len(whole))], whole).alike_bytes == alike
