"""What is believed of a partition's next batches."""

from __future__ import annotations

from protocol.fetch.batches import BATCH_HEADER_BYTES, BatchWalk
from proxy.throttle.batch_sizes import WASTED_SHARE, BatchSizes


def cut(size: int, *batches: int) -> BatchWalk:
    """A walk of so many bytes of these batches."""
    walk, records = BatchWalk(size), b"".join(bytes(8) + (each - 12).to_bytes(4) + bytes(each - 12) for each in batches)
    walk.look(records, 0, size)
    return walk


def seen(*batches: int) -> BatchSizes:
    sizes = BatchSizes()
    for size in batches:
        sizes.saw_first(size)
    return sizes


def test_nothing_is_known_at_first() -> None:
    sizes = BatchSizes()
    assert (sizes.seen, sizes.first, sizes.largest, sizes.guesses) == (0, 0, 0, True)


def test_the_batch_that_was_cut_off_is_the_next_one() -> None:
    sizes = seen(1000)
    sizes.saw(cut(2500, 1000, 1000, 700))
    assert sizes.next == 700
    assert sizes.first == 700 + BATCH_HEADER_BYTES
    assert sizes.largest == 1000


def test_if_its_header_did_not_come_the_largest_counts() -> None:
    sizes = seen(1000)
    sizes.saw(cut(2005, 1000, 1000, 700))
    assert sizes.next == 0
    assert sizes.first == 1000 + BATCH_HEADER_BYTES


def test_the_first_cut_is_no_guess() -> None:
    sizes = BatchSizes()
    sizes.saw(cut(1900, 1000, 1000))
    assert sizes.guesses


def test_a_guess_that_wastes_too_much_is_the_last_one_until_it_is_made_good() -> None:
    sizes = seen(1000)
    sizes.saw(cut(1900, 1000, 1000))
    assert not sizes.guesses
    came = 0
    while not sizes.guesses:
        sizes.saw(cut(1000 + BATCH_HEADER_BYTES, 1000, 1000))
        came += 1000
    wasted = 900 + came // 1000 * BATCH_HEADER_BYTES
    assert came * WASTED_SHARE >= wasted + 1000 / 2 - 1000 * WASTED_SHARE, "and half a batch is earned in advance"


def test_guesses_that_are_right_go_on() -> None:
    sizes = seen(1000)
    for _ in range(100):
        sizes.saw(cut(5000 + BATCH_HEADER_BYTES, *[1000] * 6))
        assert sizes.guesses


def test_large_batches_are_forgotten() -> None:
    sizes = seen(900_000)
    for _ in range(300):
        sizes.saw(cut(5000 + BATCH_HEADER_BYTES, *[1000] * 6))
    assert sizes.largest == 1000


def test_what_is_supposed_counts_until_a_batch_is_seen() -> None:
    sizes = BatchSizes()
    sizes.suppose(5000)
    assert (sizes.seen, sizes.largest, sizes.first) == (0, 5000, 5000 + BATCH_HEADER_BYTES)
    sizes.saw_first(400)
    assert (sizes.seen, sizes.largest) == (400, 400)
