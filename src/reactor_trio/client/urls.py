"""The addresses of a session: what a user gives, what asks for a session, where a gate sends it, and the way back to it."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from reactor_trio.client.decoders import wanted

_SCHEMES = {"http": "ws", "https": "wss"}


def without_token(url: str) -> tuple[str, str | None]:
    """`url`, and the token that stood in its query, or behind its `#` as in the links that the page makes."""
    parts = urlsplit(url)
    fields = parse_qsl(parts.query, keep_blank_values=True)
    found = [value for key, value in (*fields, *parse_qsl(parts.fragment)) if key == "token" and value]
    if not found:
        return url, None
    query = urlencode([field for field in fields if field[0] != "token"], safe=",")
    return urlunsplit(parts._replace(query=query, fragment="")), found[0]


def session_url(
    url: str,
    *,
    video: Iterable[str] | None = None,
    audio: Iterable[str] | None = None,
    role: str = "control",
    token: str | None = None,
    model: str | None = None,
    feedback: bool = False,
    follow: bool = False,
) -> str:
    """The WebSocket URL that asks for such a session; with `follow` of a gate as well.

    Raises ValueError if none of the codecs named can be decoded here.
    """
    parts = urlsplit(url)
    query = {
        "video": ",".join(wanted(video)) or "none",
        "audio": None if audio is None else ",".join(wanted(audio, "audio")) or "none",
        "role": role,
        "token": token,
        "model": model,
        "feedback": "1" if feedback else None,
        "follow": "1" if follow else None,
    }
    given = {key for key, _value in parse_qsl(parts.query, keep_blank_values=True)}
    added = urlencode({key: value for key, value in query.items() if value is not None and key not in given}, safe=",")
    return urlunsplit(
        (
            _SCHEMES.get(parts.scheme, parts.scheme),
            parts.netloc,
            "/ws" if parts.path in ("", "/") else parts.path,
            f"{parts.query}&{added}" if parts.query else added,
            "",
        )
    )


def replica_url(url: str, called: str) -> str:
    """`url`, where a gate sends a session that was asked for at `called`: with that one's query. Raises ValueError."""
    if not (url.isascii() and url.isprintable()):
        raise ValueError("the address of a replica has characters that no address has")
    parts = urlsplit(url)
    fields = [field for field in parse_qsl(urlsplit(called).query, keep_blank_values=True) if field[0] != "follow"]
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    return urlunsplit(parts._replace(scheme=scheme, query=urlencode(fields, safe=","), fragment=""))


def resuming_url(address: str, resume_token: str, after: int, video: Iterable[str] | None = None) -> str:
    """`address`, a URL of `session_url`, for coming back to its session; `video` if other codecs were asked for since."""
    parts = urlsplit(address)
    fields = dict(parse_qsl(parts.query, keep_blank_values=True))
    if video is not None:
        fields["video"] = ",".join(video) or "none"
    query = urlencode(fields | {"resume": resume_token, "after": str(after)}, safe=",")
    return urlunsplit(parts._replace(query=query))
