"""Failures in words: what each cause of the engine most likely means of a target, and the cure."""

from __future__ import annotations

from collections.abc import Mapping

SHOWN_MAX = 3
"""Failures that are shown as they came."""
CURES: Mapping[str, str] = {
    "connect_refused": "nothing listens at the target's port: is the application running?",
    "connect_timeout": "the target's machine does not answer: is a firewall between, is its backlog full?",
    "connect_failed": "there is no way to the target's machine from here",
    "handshake_timeout": "the target accepts connections but does not speak TLS: is it http://?",
    "tls_failed": "the target does not speak TLS as expected: is it http://?",
    "certificate_expired": "the target's certificate is out of date: renew it, or trust it all the same: --insecure",
    "certificate_name": "the target's certificate is for another name: use that name in --target, or --insecure",
    "certificate_untrusted": "nobody who is trusted signed the target's certificate: --cacert FILE, or --insecure",
    "certificate_invalid": "the target's certificate is not valid: mend it, or --insecure",
    "reset": "the target breaks connections off: has a process died, is a limit reached?",
    "closed_early": "the target closes connections before it has answered: has a process died?",
    "response_timeout": "the target takes requests but does not answer them: does it hang, is what it waits for down?",
    "unanswered": "the target takes requests but does not answer them: does it hang, is what it waits for down?",
    "transfer_timeout": "the target begins answers but does not end them: does it hang?",
    "bad_response": "what answers there does not speak HTTP: is it https://?",
    "http2_not_spoken": "the target does not speak HTTP/2: leave --http2 out",
    "too_many_redirects": "the target's redirections go round: does it want https://, another host, or a login?",
    "redirect_elsewhere": "the target redirects to another server, port or scheme: give that as --target",
    "status_3xx": "the target redirects what the log has as answered: does it need --login?",
    "status_4xx": "the target refuses what the log has as answered: is it the right target, does it need --login?",
    "status_5xx": "the target fails: its own error log says why",
    "wrong_status": "the target does not answer as the log says: is it the right target, does it need --login?",
    "body_encoded": "answers are compressed, so that they cannot be checked: leave Accept-Encoding out",
    "check_failed": "answers are not what the scenario says they should be",
    "value_missing": "answers do not have what the scenario takes from them: have the pages changed?",
    "value_unusable": "a value that a request needs is missing, or cannot stand where it should",
}
"""By the engine's names of causes."""


def cure(causes: Mapping[str, int]) -> str | None:
    """Returns the cure of the most frequent cause of failure."""
    known = {cause: count for cause, count in causes.items() if cause in CURES}
    return CURES[max(known, key=lambda cause: known[cause])] if known else None


def in_words(causes: Mapping[str, int]) -> str:
    """The causes, the most frequent first."""
    return ", ".join(sorted(causes, key=lambda cause: -causes[cause]))
