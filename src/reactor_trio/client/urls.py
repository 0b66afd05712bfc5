"""The URLs of a session: the user's, the one that asks for a session, a replica's, and the one that resumes a session."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from reactor_trio.client.decoders import wanted
from reactor_trio.protocol import VideoChoice

_SCHEMES = {"http": "ws", "https": "wss"}


def is_visible_ascii(text: str) -> bool:
    """Return whether `text` can be a token, or a URL: it has visible ASCII characters only."""
    return all("!" <= character <= "~" for character in text)


def without_token(url: str) -> tuple[str, str | None]:
    """Return `url` without its token, and the token. It may be in the query, or behind `#` as in the page's links."""
    parts = urlsplit(url)
    fields = parse_qsl(parts.query, keep_blank_values=True)
    found = [value for key, value in (*fields, *parse_qsl(parts.fragment)) if key == "token" and value]
    if not found:
        return url, None
    query = urlencode([field for field in fields if field[0] != "token"], safe=",")
    return urlunsplit(parts._replace(query=query, fragment="")), found[0]


def websocket_path(url: SplitResult) -> str:
    """Return the path of the WebSocket at `url`.

    An http(s) URL is the page's, and the WebSocket is the relative link `ws` there. So is a ws(s) URL whose path is empty or
    ends with `/`. Any other ws(s) URL is the WebSocket's own.
    """
    own = url.scheme not in _SCHEMES and url.path and not url.path.endswith("/")
    return url.path if own else path_beside(url.path, "ws")


def path_beside(path: str, name: str) -> str:
    """Return the path of the relative link `name` at `path`, which is the page's or the WebSocket's."""
    return f"{path.rpartition('/')[0]}/{name}"


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
    fork: str | None = None,
    world: str | None = None,
) -> str:
    """Return the WebSocket URL that asks for such a session; with `follow`, a gate may answer it, too.

    See `websocket_path` for the path of `url`.

    Raises ValueError if `video` or `audio` names codecs and none of them can be decoded here.
    """
    parts = urlsplit(url)
    fields = {
        "video": ",".join(wanted(video)) or "none",
        "audio": None if audio is None else ",".join(wanted(audio, "audio")) or "none",
        "role": role,
        "token": token,
        "model": model,
        "feedback": "1" if feedback else None,
        "cadence": "1" if feedback and role == "viewer" else None,
        "follow": "1" if follow else None,
        "worlds": "1",
        "fork": fork,
        "world": world,
    }
    given = {key for key, _value in parse_qsl(parts.query, keep_blank_values=True)}
    added = urlencode({key: value for key, value in fields.items() if value is not None and key not in given}, safe=",")
    scheme, path = _SCHEMES.get(parts.scheme, parts.scheme), websocket_path(parts)
    query = f"{parts.query}&{added}" if parts.query else added
    return urlunsplit(parts._replace(scheme=scheme, path=path, query=query, fragment=""))


def replica_url(url: str, called: str) -> str:
    """Return the replica's `url` with the query of `called`, the URL of the gate. Raises ValueError."""
    if not (url.isascii() and url.isprintable()):
        raise ValueError("the URL of a replica may have printable ASCII characters only")
    parts = urlsplit(url)
    fields = [field for field in parse_qsl(urlsplit(called).query, keep_blank_values=True) if field[0] != "follow"]
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    return urlunsplit(parts._replace(scheme=scheme, query=urlencode(fields, safe=","), fragment=""))


def resuming_url(address: str, resume_token: str, after: int, video: VideoChoice | None = None) -> str:
    """Return the URL that resumes the session of `address`, a URL of `session_url`; `video` if it has changed since."""
    parts = urlsplit(address)
    fields = dict(parse_qsl(parts.query, keep_blank_values=True))
    if video is not None:
        fields = {key: value for key, value in fields.items() if not key.startswith("video.")}
        fields["video"] = ",".join(video.video)
        fields |= {f"video.{name}": ",".join(codecs) for name, codecs in video.tracks.items()}
    query = urlencode(fields | {"resume": resume_token, "after": str(after)}, safe=",")
    return urlunsplit(parts._replace(query=query))
