"""Signed tickets: who may issue them, what they may say, and that each is good once."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time

import pytest

from reactor_trio import issue_ticket
from reactor_trio.admission import Claims
from reactor_trio.edge.tickets import LEEWAY, LONGEST, Spent, Ticket, Tickets
from reactor_trio.transport import Refused

KEY = b"k" * 32
OTHER = b"o" * 32
NOW = 1_800_000_000.0


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwt_by_hand(claims, key=KEY, header=None, hash_name="sha256"):
    """As any language makes one (RFC 7519), without a library."""
    head = {"alg": "HS256", "typ": "JWT"} if header is None else header
    signed = f"{b64(json.dumps(head).encode())}.{b64(json.dumps(claims).encode())}"
    return f"{signed}.{b64(hmac.new(key, signed.encode(), hash_name).digest())}"


def claims(**changed):
    return {"exp": NOW + 60, "jti": "one", "role": "control"} | changed


def office(*keys, now=NOW, **options):
    return Tickets(keys or (KEY,), "sky", clock=lambda: now, **options)


def refusal(text, tickets=None):
    with pytest.raises(Refused) as caught:
        (tickets or office()).read(text)
    return caught.value.refusal.kind.denied


def test_a_jwt_made_by_hand_is_taken():
    ticket = office().read(jwt_by_hand(claims(sub="ann", max_session=90, aud="sky", iat=NOW, more={"a": 1})))
    assert ticket.claims == Claims("control", "ann", 90.0)


def test_what_we_issue_is_taken_and_says_what_it_was_asked_to():
    text = issue_ticket(KEY.decode(), role="viewer", expires=30, subject="ann", max_session=5, model="sky")
    ticket = Tickets([KEY], "sky").read(text)
    assert ticket.claims == Claims("viewer", "ann", 5.0)
    assert 25 < ticket.exp - time.time() <= 30
    assert Tickets([KEY], "sky").read(issue_ticket(KEY)).claims == Claims()
    assert issue_ticket(KEY) != issue_ticket(KEY)
    assert refusal(text, Tickets([KEY], "sea")) == "wrong"


@pytest.mark.parametrize(
    "wrong",
    [{"expires": 0}, {"expires": LONGEST + 1}, {"role": "admin"}, {"max_session": -1}, {"subject": "a\nb"},
     {"subject": "s" * 257}, {"expires": float("nan")}],
)  # fmt: skip
def test_a_ticket_that_would_be_refused_is_not_issued(wrong):
    with pytest.raises(ValueError):
        issue_ticket(KEY, **wrong)


def test_a_key_of_31_bytes_issues_nothing_and_one_of_32_does():
    with pytest.raises(ValueError, match="31 bytes, a key needs 32"):
        issue_ticket("k" * 31)
    assert issue_ticket("k" * 32)


def test_a_key_is_changed_without_a_gap():
    both = office(OTHER, KEY)
    assert both.read(jwt_by_hand(claims(jti="old"))).jti == "old"
    assert both.read(jwt_by_hand(claims(jti="new"), OTHER)).jti == "new"
    assert both.read(jwt_by_hand(claims(jti="kid"), header={"alg": "HS256", "kid": "2026-11"})).jti == "kid"
    assert refusal(jwt_by_hand(claims()), office(OTHER)) == "wrong"


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", "...", "a.b.c", "é.é.é", "\0", "x" * 16_000,
        jwt_by_hand(claims(), b"w" * 32),
        jwt_by_hand(claims(), header={"alg": "none"}),
        jwt_by_hand(claims(), header={"alg": "none"}).rpartition(".")[0] + ".",
        jwt_by_hand(claims(), header={"alg": "HS512"}, hash_name="sha512"),
        jwt_by_hand(claims(), header={"alg": ["HS256"]}),
        jwt_by_hand(claims(), header={}),
        jwt_by_hand(claims(), header=[]),
        jwt_by_hand(claims(), header={"alg": "HS256", "crit": ["exp"], "exp": 1}),
        jwt_by_hand(claims(), header={"alg": "HS256", "crit": []}),
        jwt_by_hand(claims(), header={"alg": "HS256", "b64": False}),
        b64(b"[" * 12_000) + ".e30.AAAA",
        b64(b'{"alg": ' + b"9" * 11_000 + b"}") + ".e30.AAAA",
    ],
)  # fmt: skip
def test_what_we_did_not_sign_is_refused(text):
    assert refusal(text) == "wrong"


def test_a_changed_ticket_is_refused():
    head, _, signature = jwt_by_hand(claims(role="viewer")).split(".")
    assert refusal(f"{head}.{b64(json.dumps(claims()).encode())}.{signature}") == "wrong"


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": None}, {"exp": "soon"}, {"exp": 0}, {"jti": None}, {"jti": ""}, {"jti": "j" * 129}, {"jti": 7},
        {"role": "admin"}, {"role": None}, {"sub": "s" * 257}, {"sub": "line\nbreak"}, {"max_session": 0},
        {"max_session": "1"}, {"aud": "sea"}, {"aud": ["sea", "lake"]}, {"aud": []}, {"aud": 5},
    ],
)  # fmt: skip
def test_a_signed_ticket_that_says_something_odd_is_refused(changed):
    assert refusal(jwt_by_hand(claims(**changed))) == "wrong"


@pytest.mark.parametrize("missing", ["exp", "jti", "role"])
def test_a_ticket_needs_an_end_an_id_and_a_role(missing):
    some = claims()
    del some[missing]
    assert refusal(jwt_by_hand(some)) == "wrong"


def test_a_payload_that_is_no_json_or_too_deep_is_refused():
    for payload in (b"", b"{", b"[]", b"[" * 11_000, b'{"a":' * 2_000, b'{"role": "\xff"}'):
        signed = b64(b'{"alg":"HS256"}') + "." + b64(payload)
        text = f"{signed}.{b64(hmac.new(KEY, signed.encode(), hashlib.sha256).digest())}"
        assert refusal(text) == "wrong"


def test_names_of_several_models():
    assert office().read(jwt_by_hand(claims(aud=["sea", "sky"]))).jti == "one"


def test_a_ticket_is_good_until_just_before_its_end_and_the_leeway():
    text = jwt_by_hand(claims(exp=NOW))
    assert office(now=NOW + LEEWAY - 0.01).read(text).exp == NOW
    assert refusal(text, office(now=NOW + LEEWAY)) == "expired"


def test_a_ticket_is_good_for_thirty_days_and_no_longer():
    assert office().read(jwt_by_hand(claims(exp=NOW + LONGEST + LEEWAY)))
    assert refusal(jwt_by_hand(claims(exp=NOW + LONGEST + LEEWAY + 1))) == "wrong"


def test_a_ticket_is_not_good_before_its_time():
    assert office().read(jwt_by_hand(claims(nbf=NOW + LEEWAY)))
    assert refusal(jwt_by_hand(claims(nbf=NOW + LEEWAY + 1))) == "expired"


def test_a_ticket_is_good_once():
    tickets, text = office(), jwt_by_hand(claims())
    first, second = tickets.read(text), tickets.read(text)  # reading uses nothing
    tickets.spend(first)
    with pytest.raises(Refused) as caught:
        tickets.spend(second)
    assert caught.value.refusal.kind.denied == "used"
    assert refusal(text, tickets) == "used"
    assert tickets.read(jwt_by_hand(claims(jti="two"))).jti == "two"


def test_only_so_many_used_tickets_are_remembered_and_then_none_is_taken():
    tickets = office(most=2)
    for jti in ("a", "b"):
        tickets.spend(tickets.read(jwt_by_hand(claims(jti=jti))))
    with pytest.raises(Refused) as caught:
        tickets.spend(tickets.read(jwt_by_hand(claims(jti="c"))))
    assert caught.value.refusal.kind.denied == "full"
    assert refusal(jwt_by_hand(claims(jti="a")), tickets) == "used"


def test_a_used_ticket_is_forgotten_when_it_has_expired_and_makes_room():
    now = NOW
    tickets = Tickets([KEY], "sky", clock=lambda: now, most=1)
    tickets.spend(tickets.read(jwt_by_hand(claims(jti="a", exp=NOW + 1))))
    now = NOW + 1 + LEEWAY + 0.01
    tickets.spend(tickets.read(jwt_by_hand(claims(jti="b", exp=NOW + 60))))


def test_a_clock_that_jumps_ahead_and_back_makes_no_used_ticket_new():
    now = NOW
    tickets = Tickets([KEY], "sky", clock=lambda: now)
    text = jwt_by_hand(claims(exp=NOW + 60))
    tickets.spend(tickets.read(text))
    now = NOW + 86_400
    assert refusal(text, tickets) == "expired"
    assert tickets.read(jwt_by_hand(claims(jti="two", exp=now + 60)))  # forgets the first
    now = NOW
    assert refusal(text, tickets) == "used"
    assert tickets.read(jwt_by_hand(claims(jti="three", exp=NOW + 61)))


def test_a_ticket_that_is_given_back_is_good_once_more_and_takes_no_room():
    tickets = office(most=1)
    first, second = (tickets.read(jwt_by_hand(claims(jti=jti))) for jti in ("a", "b"))
    tickets.spend(first)
    tickets.give_back(first)
    tickets.give_back(first)  # nothing more
    tickets.spend(second)
    tickets.give_back(second)
    tickets.spend(first)
    with pytest.raises(Refused):
        tickets.spend(first)


def test_many_used_tickets_are_forgotten_in_the_order_in_which_they_end():
    spent = Spent(1000)
    for number in range(1000):
        spent.add(Ticket(exp=1 + (number * 7) % 1000, jti=str(number), role="control"))
    spent.forget(501)
    assert len(spent) == 500
    spent.forget(2000)
    assert len(spent) == 0
