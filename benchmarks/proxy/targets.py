"""The targets: our proxy's CPU time per request, compared with the peers."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.server.targets import Target, against_best_peer, against_nginx

TARGETS: Sequence[Target] = (
    Target("hit-500B", "default", "best peer", 0.60, against_best_peer),
    Target("hit-5KB", "default", "best peer", 0.60, against_best_peer),
    Target("hit-50KB", "default", "best peer", 0.60, against_best_peer),
    Target("hit-500KB", "default", "best peer", 0.85, against_best_peer),
    Target("pass-500B", "default", "nginx", 1.00, against_nginx),
    Target("pass-5KB", "default", "nginx", 1.00, against_nginx),
    Target("pass-50KB", "default", "nginx", 1.00, against_nginx),
    Target("fastcgi-500B", "default", "nginx", 0.80, against_nginx),
    Target("fastcgi-5KB", "default", "nginx", 0.80, against_nginx),
    Target("keep-500B", "default", "nginx", 1.00, against_nginx),
    Target("keep-5KB", "default", "nginx", 1.00, against_nginx),
    Target("keep-50KB", "default", "nginx", 1.00, against_nginx),
)
