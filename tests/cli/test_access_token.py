"""`reactor run --token` and `--open`: no token is in an argument, and a drawn one is shown on a terminal only."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from reactor_trio.cli.access_token import VARIABLE, page_with, whose_token, with_token
from reactor_trio.cli.browser import address_for_browser
from reactor_trio.cli.terminal import Terminal, UsageError
from reactor_trio.configuration.settings import AuthSettings, Settings


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def variable(monkeypatch):
    monkeypatch.setenv(VARIABLE, "")  # so that what is drawn is taken away again


def test_auto_draws_a_token_for_a_terminal_and_puts_it_into_the_variable(monkeypatch):
    settings, drawn = with_token(Settings(), "auto", Terminal(Screen()))
    assert settings.auth.token == "env:REACTOR_TOKEN"
    assert len(drawn) == 32
    assert with_token(Settings(), "auto", Terminal(io.StringIO())) == (settings, None)  # by now the variable has it
    assert page_with("http://127.0.0.1:8080/", drawn) == f"http://127.0.0.1:8080/#token={drawn}"


def test_auto_takes_the_variable_and_keeps_the_other_secrets(monkeypatch):
    monkeypatch.setenv(VARIABLE, "a-token-of-the-user")
    before = Settings(auth=AuthSettings(token="env:OLD", viewer_token="env:VIEW"))
    settings, drawn = with_token(before, "auto", Terminal(io.StringIO()))
    assert (settings.auth.token, settings.auth.viewer_token, drawn) == ("env:REACTOR_TOKEN", "env:VIEW", None)


def test_without_a_terminal_no_token_is_drawn():
    with pytest.raises(UsageError, match=r"--token auto: a drawn token is shown on a terminal only"):
        with_token(Settings(), "auto", Terminal(io.StringIO()))


def test_a_token_itself_is_refused_and_not_repeated():
    with pytest.raises(UsageError, match=r"--token: other users can read what is written here") as refused:
        with_token(Settings(), "my-own-long-secret", Terminal(Screen()))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        (None, ""),
        (AuthSettings(token="env:MINE"), "that of the variable MINE"),
        (AuthSettings(viewer_token="file:/t"), "that of the file /t"),
        (AuthSettings(token="secret"), "that of runtime.auth"),
    ],
)  # fmt: skip
def test_a_terminal_is_told_what_the_page_asks_for(auth, said):
    line = f"it asks for a token, {said}; or open it with #token=TOKEN at its end" if said else ""
    assert whose_token(Settings(auth=auth)) == line


def test_a_browser_gets_a_token_by_a_file_that_only_its_user_reads():
    with address_for_browser("http://127.0.0.1:8080/#token=abc") as address:
        path = Path(address.removeprefix("file://"))
        assert "abc" not in address
        assert 'content="0; url=http://127.0.0.1:8080/#token=abc"' in path.read_text()
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()
    with address_for_browser("http://127.0.0.1:8080/") as address:
        assert address == "http://127.0.0.1:8080/"
