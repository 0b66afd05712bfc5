"""Admission without I/O: slots and queue, a client's rights, token buckets, and the journal of a server's phases."""

from reactor_trio.admission.claims import Claims as Claims
from reactor_trio.admission.phase_journal import Phase as Phase
from reactor_trio.admission.phase_journal import PhaseEntry as PhaseEntry
from reactor_trio.admission.phase_journal import PhaseJournal as PhaseJournal
from reactor_trio.admission.slots import Admission as Admission
from reactor_trio.admission.slots import Change as Change
from reactor_trio.admission.slots import NotAdmitted as NotAdmitted
from reactor_trio.admission.slots import RefusalReason as RefusalReason
from reactor_trio.admission.token_bucket import TokenBucket as TokenBucket
