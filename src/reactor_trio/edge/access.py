"""`Access`: reads the credential of a request and returns what its client may do.

A client shows one credential: `token=` in the query, or else `Authorization: Bearer`. It is the server's token, the server's
viewer token, a ticket, or the share, upload or worlds token of a session. The resume token of a session is in the query,
too, as `resume=`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reactor_trio.admission import Claims
from reactor_trio.configuration.credentials import read_key, read_token
from reactor_trio.configuration.settings import AuthSettings
from reactor_trio.edge.grants import UPLOAD_CREDENTIALS, WORLD_CREDENTIALS, Credentials, Grant, GrantKind, Secrets
from reactor_trio.edge.tickets import Tickets
from reactor_trio.errors import ManifestError
from reactor_trio.transport import Refusal, Refused, Request

#: of the routes that take a secret of a session alone: what their clients must show
_SHOW = {
    UPLOAD_CREDENTIALS: "show the upload_token of reactor.welcome, of a session that runs",
    WORLD_CREDENTIALS: "show the worlds.token of reactor.welcome, of a session that runs",
}


class Access:
    """The authentication of one server.

    Args:
        auth: the secrets; None: clients need no token.
        model: the served model's name, which a ticket may require.

    Attributes:
        required: whether clients need a token.
        secrets: those of the server and of its sessions.

    Raises ManifestError for a secret that cannot be read or used.
    """

    def __init__(self, auth: AuthSettings | None, model: str) -> None:
        self.required = auth is not None
        self.secrets = Secrets()
        self._tickets: Tickets | None = None
        self._held: set[str] = set()  # ids of the tickets in `holding`
        if auth is None:
            return
        given = ("token", auth.token, Claims()), ("viewer_token", auth.viewer_token, Claims(role="viewer"))
        for key, text, claims in given:
            if text is not None:
                token = read_token(text, f"runtime.auth.{key}").decode()
                if self.secrets.find(token, "server") is not None:
                    raise ManifestError(f"runtime.auth.{key}: the same as token; a client that has it would control")
                self.secrets.register(token, Grant("server", claims))
        keys = ticket_keys(auth)
        if keys:
            try:
                self._tickets = Tickets(keys, model)
            except ValueError as error:
                raise ManifestError(f"runtime.auth.ticket_keys: a key that cannot sign: {error}") from None
        if auth.token is None and auth.viewer_token is None and not keys:
            raise ManifestError(
                "runtime.auth: no client could connect; give a token, a viewer_token or ticket_keys, or leave auth out"
            )

    def identify(self, request: Request, credentials: Credentials) -> Grant:
        """Return what the client may do by the credential that it shows, or why it may do nothing (`Grant.refusal`).

        A credential is wrong if it is unknown or of a kind that is not in `credentials`. A client that shows none of these
        kinds may do what every client may.
        """
        if not credentials:
            return Grant()
        try:
            return self._grant(request, credentials)
        except Refused as refused:
            return Grant(refusal=refused.refusal)

    def _grant(self, request: Request, credentials: Credentials) -> Grant:
        shown, resume = shown_token(request), request.query.get("resume")
        role = request.query.get("role", "control")
        if (show := _SHOW.get(credentials)) is not None:
            if (grant := self.secrets.find(shown, *credentials)) is None:
                raise Refused(Refusal("token_missing" if shown is None else "token_wrong", show))
            return grant
        if "resume" in credentials:
            if role == "control" and (grant := self.secrets.find(resume, "resume")) is not None:
                return grant  # its permissions stay
            if role == "control" and shown is None and resume and self.required:
                why = "no session can be resumed with this token now, and a new one takes the server's token"
                raise Refused(Refusal("token_wrong", why))
            if role == "viewer" and shown is not None and not self.required and self.secrets.find(shown, "share") is None:
                why = "no session has this token: the share link is wrong, or its session is over"
                raise Refused(Refusal("token_wrong", why))
        return self.check(shown, share="share" in credentials)

    def check(self, shown: str | None, *, share: bool = False) -> Grant:
        """Return what a client with this token may do; share tokens count if `share`. Raises Refused."""
        kinds: tuple[GrantKind, ...] = ("server", "share") if share else ("server",)
        if (grant := self.secrets.find(shown, *kinds)) is not None:
            return grant
        if not self.required:
            return Grant()
        if shown is None:
            why = "this server wants a token: Authorization: Bearer TOKEN, or token=TOKEN in the query"
            raise Refused(Refusal("token_missing", why))
        if self._tickets is None:
            raise Refused(Refusal("token_wrong", "this token is not one that this server knows"))
        ticket = self._tickets.read(shown)
        return Grant("ticket", ticket.claims, ticket)

    @contextmanager
    def holding(self, grant: Grant) -> Iterator[None]:
        """Reserve the ticket of `grant`, if there is one, while its client waits for a slot.

        Afterwards another request may use the ticket, unless `use` was called. Raises Refused if another request holds it.
        """
        if grant.ticket is None:
            yield
            return
        jti = grant.ticket.jti
        if jti in self._held:
            why = "another request with this ticket waits for a slot; each is good for one connection"
            raise Refused(Refusal("token_used", why))
        self._held.add(jti)
        try:
            yield
        finally:
            self._held.discard(jti)

    def use(self, grant: Grant) -> None:
        """Use up the ticket of `grant`, if there is one. Who refuses the client later calls `give_back`. Raises Refused."""
        if grant.ticket is not None and self._tickets is not None:
            self._tickets.spend(grant.ticket)

    def give_back(self, grant: Grant) -> None:
        """Let the ticket of `grant`, which `use` has used up, be used again."""
        if grant.ticket is not None and self._tickets is not None:
            self._tickets.give_back(grant.ticket)


def shown_token(request: Request) -> str | None:
    """Return the token of a request, or None. The query comes first: a proxy may have put its own token into the header."""
    if token := request.query.get("token"):
        return token
    scheme, _, token = (request.header("authorization") or "").partition(" ")
    return (token.strip() or None) if scheme.lower() == "bearer" else None


def ticket_keys(auth: AuthSettings) -> list[bytes]:
    """Read the ticket keys; the first one signs. Raises ManifestError."""
    return [read_key(text, f"runtime.auth.ticket_keys[{index}]") for index, text in enumerate(auth.ticket_keys)]
