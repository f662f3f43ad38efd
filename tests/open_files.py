"""What this process has open, by name and not by number: what a test left behind may be closed at any moment."""

from pathlib import Path

PROC = Path("/proc/self/fd")


def open_files() -> set[tuple[int, str]]:
    """Each open descriptor with what it leads to, such as `(7, "socket:[4711]")`.

    A test that nothing stays open compares `open_files() - before` with the empty set. Numbers of open files would not
    do: sockets of an earlier test, which the garbage collector or a thread that ends closes meanwhile, make them fewer.
    """
    found = set()
    for link in PROC.iterdir():
        try:
            found.add((int(link.name), str(link.readlink())))
        except FileNotFoundError:
            continue  # The directory that was just listed, or a file that was closed since.
    return found
