"""What Prometheus may ask for. Labels are names an administrator gave: never a client's words.

With several workers the numbers of all are added up through files in `PROMETHEUS_MULTIPROC_DIR`, which the server
sets before it starts them.
"""

import os

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from translator.core.emulation.kinds import EMULATION, REPAIRS
from translator.follow_up import FOLLOW_UP
from usage.records import Settlement

ATTEMPTS = Counter("bridge_attempts", "Settled attempts", ["upstream", "state"])
TOKENS = Counter("bridge_tokens", "Tokens of settled attempts", ["upstream", "kind"])
TTFT = Histogram(
    "bridge_ttft_seconds",
    "From the send to the first delta",
    ["upstream"],
    buckets=(0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32),
)
EMULATED = Counter("bridge_emulated_attempts", "Settled attempts whose tools were told in words", ["upstream"])
REPAIRED = Counter("bridge_tool_repairs", "What was wrong with tool calls found in text", ["upstream", "kind"])
FOLLOW_UPS = Counter("bridge_follow_ups", "Settled attempts that asked an upstream to go on", ["upstream"])
STREAMS = Gauge("bridge_streams_open", "Streams to clients", multiprocess_mode="livesum")
WAITING = Gauge("bridge_calls_waiting", "Calls that wait for a credential", multiprocess_mode="livesum")
LATENESS = Gauge(
    "bridge_loop_lateness_seconds",
    "How late an event loop was at the worst, in the last minute or two",
    multiprocess_mode="livemax",
)
REFUSED_STRANGERS = Counter("bridge_refused_strangers", "Requests with no token of ours")

TOKEN_KINDS = ("input", "cache_read", "cache_write", "output")


def note_settlement(upstream: str, settlement: Settlement) -> None:
    """Count an attempt that has ended."""
    ATTEMPTS.labels(upstream, settlement.state.value).inc()
    for kind in TOKEN_KINDS:
        TOKENS.labels(upstream, kind).inc(max(0, getattr(settlement, f"{kind}_tokens")))
    if EMULATION in settlement.notes:
        EMULATED.labels(upstream).inc()
        for kind in set(REPAIRS).intersection(settlement.notes):
            REPAIRED.labels(upstream, kind).inc()
    if FOLLOW_UP in settlement.notes:
        FOLLOW_UPS.labels(upstream).inc()
    if settlement.ttft_ms is not None:
        TTFT.labels(upstream).observe(settlement.ttft_ms / 1000)


def render() -> bytes:
    """Return the numbers of all workers in Prometheus' text format."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
