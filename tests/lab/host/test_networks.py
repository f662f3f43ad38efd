"""Two labs never have the same network, whichever they would have liked."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from lab.errors import LabError
from lab.host import networks
from lab.host.networks import own_network


@pytest.fixture
def two_networks(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """All that there are, and no interface has an address of either."""
    monkeypatch.setattr(networks, "NETWORKS", ("198.19.254", "198.19.255"))
    monkeypatch.setattr(networks, "output_of", lambda *_: "2: eth0    inet 10.0.0.7/24 scope global eth0")
    return {"198.19.254", "198.19.255"}


def test_each_is_had_once_until_it_is_given_back(two_networks: set[str]) -> None:
    with own_network() as first:
        with own_network() as second:
            assert {first, second} == two_networks
            with pytest.raises(LabError, match=r"each network of 198\.18\.0\.0/16 is taken"), own_network():
                pytest.fail("there was none left")
        with own_network() as again:
            assert again == second


def test_one_that_an_interface_has_is_left_alone(two_networks: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "output_of", lambda *_: "9: kl7x0    inet 198.19.254.50/24 scope global kl7x0")
    with own_network() as prefix:
        assert {prefix} == two_networks - {"198.19.254"}


def test_what_fails_within_the_block_gives_it_back(two_networks: set[str]) -> None:
    for _ in two_networks:
        with pytest.raises(ValueError, match="within"), own_network():
            raise ValueError("within")
    with ExitStack() as both:
        assert {both.enter_context(own_network()) for _ in two_networks} == two_networks
