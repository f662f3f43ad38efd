from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.http.authorization import names_of_this_machine

if TYPE_CHECKING:
    from pathlib import Path


def test_a_machine_goes_by_its_name_its_domains_and_what_hosts_says(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text(
        "127.0.0.1 localhost\n127.0.1.1\tKafka-101.dc1.example.com kafka-101 # this one\n"
        "127.0.102.1 kafka-102\n\n10.0.0.1\n"
    )
    (tmp_path / "resolv.conf").write_text("nameserver 10.0.0.53\nsearch example.com. svc.cluster.local\noptions x\n")
    found = names_of_this_machine(hosts=tmp_path / "hosts", resolver=tmp_path / "resolv.conf", host_name="kafka-101")
    assert found == {"kafka-101", "kafka-101.dc1.example.com", "kafka-101.example.com", "kafka-101.svc.cluster.local"}


def test_a_name_with_a_domain_has_a_short_one(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    found = names_of_this_machine(hosts=missing, resolver=missing, host_name="kafka-101.example.com")
    assert found == {"kafka-101", "kafka-101.example.com"}


def test_files_that_are_none_name_nothing(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 9)
    found = names_of_this_machine(hosts=tmp_path, resolver=tmp_path / "binary", host_name="a")
    assert found == {"a"}


def test_this_machine_has_a_name() -> None:
    assert names_of_this_machine()
