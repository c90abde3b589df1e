"""How much the server takes on: sizes, waiting room, patience; and the errors that say so."""

from __future__ import annotations

from dataclasses import dataclass

from nqg.errors import NqgError


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything that a request can ask for is bounded by one of these."""

    body_bytes: int = 1_000_000
    tokens: int = 100  # of a sentence
    sentences: int = 2_000  # of a batch
    rules: int = 100  # listed at a time
    chart_entries: int = 1 << 20  # of the chart of a sentence that is explained
    together: int = 64  # sentences that are parsed at once
    waiting: int = 512  # sentences that wait for their turn; further ones are turned away
    connections: int = 1_000
    seconds: float = 30.0  # that an answer may take
    patience: float = 10.0  # seconds for a request to arrive, and for a client to take its answer


class Refused(NqgError):
    """A request that is not answered; `status` is the HTTP status that says so."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Busy(Refused):
    """Too much is waiting already; the client may try again in `retry_after` seconds."""

    def __init__(self, reason: str, retry_after: int = 1) -> None:
        super().__init__(503, f"{reason}; try again in {retry_after} s")
        self.retry_after = retry_after


def checked_sentence(sentence: str, limits: Limits) -> str:
    """`sentence`, or a refusal where it has too many tokens."""
    found = len(sentence.split())
    if found > limits.tokens:
        raise Refused(422, f"the sentence has {found} tokens; at most {limits.tokens} are read")
    return sentence
