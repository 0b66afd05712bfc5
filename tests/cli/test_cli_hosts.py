"""`reactor run --allow-host` and `--origin`, and the addresses that it prints."""

from __future__ import annotations

import pytest

from reactor_trio.cli.command_parser import parse
from reactor_trio.cli.serving import manifest_of, where
from reactor_trio.cli.terminal import Terminal, UsageError


def settings_of(tmp_path, *arguments):
    (tmp_path / "reactor.yaml").write_text("model: a:B\nruntime: {hosts: [a.example], origins: [https://a.example]}\n")
    return manifest_of(parse(["run", "--path", str(tmp_path), *arguments]), Terminal()).settings


def test_hosts_and_origins_of_the_command_line_are_added_to_the_manifests(tmp_path):
    settings = settings_of(
        tmp_path, "--allow-host", "gpu.example", "--allow-host", "[2001:db8::7]", "--allow-host", "2001:db8::8",
        "--origin", "https://Studio.example/", "--origin", "http://[::1]:5173", "--origin", "*",
    )  # fmt: skip
    assert settings.hosts == ("a.example", "gpu.example", "[2001:db8::7]", "2001:db8::8")
    assert settings.origins == ("https://a.example", "https://studio.example", "http://[::1]:5173", "*")


def test_without_options_the_manifests_hosts_and_origins_hold(tmp_path):
    settings = settings_of(tmp_path)
    assert (settings.hosts, settings.origins) == (("a.example",), ("https://a.example",))


@pytest.mark.parametrize("wrong", ["http://gpu.example", "gpu.example:8080", "gpu.example/", "", "a b", "[::1]:80", "[gpu]"])
def test_a_host_is_a_name_or_an_address_alone(tmp_path, wrong):
    with pytest.raises(UsageError, match="is not a host: a name or an address alone, without http:// and port"):
        settings_of(tmp_path, "--allow-host", wrong)


@pytest.mark.parametrize("wrong", ["studio.example", "https://studio.example/page", "https://", "", "null"])
def test_an_origin_has_the_form_that_browsers_send(tmp_path, wrong):
    with pytest.raises(UsageError, match="is not an origin, such as https://studio"):
        settings_of(tmp_path, "--origin", wrong)


def test_the_first_url_ends_its_line_and_the_others_follow_below():
    first, name, here = "http://192.0.2.7:8080/", "http://gpu-box:8080/", "http://127.0.0.1:8080/"
    assert where([here]) == here
    assert where([first, here]) == f"{first}\nalso at {here} (the last one on this machine)"
    assert where([first, name, here]) == f"{first}\nalso at {name}, {here} (the last one on this machine)"
