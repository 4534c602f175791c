//! The streaming server's counters: one table that feeds the final report and the metrics page, and histograms of
//! lateness and of the server's own part of it.

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use serde::ser::{Serialize, SerializeMap, Serializer};
use sojourn_measure::{Histogram, Nanos};
use sojourn_server::{CounterKind as Kind, admin, counter_table, metrics};

counter_table! {
    /// A counter; metrics prefix its key with `sojourn_stream_`.
    pub enum Counter;

    Requests "requests" Total "RTSP requests answered."
    Refusals "requests_refused" Total "RTSP requests answered with another status than 200."
    AuthenticationFailures "authentication_failures" Total "Requests answered 401 because of a wrong user name or password."
    RefusedBandwidth "requests_refused_for_bandwidth" Total "SETUP and PLAY requests answered 453 because all bandwidth is reserved."
    ConnectionsAccepted "connections_accepted" Total "RTSP connections accepted."
    ConnectionsShed "connections_shed" Total "RTSP connections answered 503 immediately, because descriptors or connection slots ran out."
    ConnectionsOpen "connections_open" Gauge "RTSP connections open now."
    ConnectionsWithoutSession "connections_without_session" Gauge "RTSP connections open now that have no session."
    SessionsBegun "sessions_begun" Total "Sessions set up."
    SessionsEnded "sessions_ended" Total "Sessions ended, for any reason."
    SessionsTimedOut "sessions_timed_out" Total "Sessions ended because their client was silent for too long."
    SessionsReady "sessions_ready" Gauge "Sessions set up or paused now."
    SessionsUnplayed "sessions_unplayed" Gauge "Of those, sessions that have never played."
    SessionsPlaying "sessions_playing" Gauge "Sessions playing now."
    BandwidthReserved "bandwidth_reserved_bits_per_second" Gauge "Bandwidth reserved for sessions."
    Packets "packets_sent" Total "RTP packets sent."
    PayloadBytes "payload_bytes_sent" Total "Bytes of RTP payload sent."
    SentBytes "sent_bytes" Total "Bytes sent: RTP and RTCP with their headers, interleaved or in datagrams."
    SendCalls "send_calls" Total "System calls that sent datagrams."
    SendErrors "send_errors" Total "Packets that the system refused to send."
    FramesSent "frames_sent" Total "Samples of films sent whole."
    FramesDropped "frames_dropped" Total "Samples not sent because the client had not read earlier ones."
    FramesUnreadable "frames_unreadable" Total "Samples not sent because they could not be read."
    ReceiverReports "receiver_reports" Total "RTCP receiver reports read."
    ReportsIgnored "rtcp_ignored" Total "RTCP datagrams that are malformed or from an unknown sender."
    PacketsReportedLost "packets_reported_lost" Total "Packets that receivers reported lost."
    WaitsForDisk "waits_for_disk" Total "Samples that were due before they were in memory."
    LookAheadReads "look_ahead_reads" Total "Parts of films read before they were due."
    FilmsOpen "films_open" Gauge "Films whose index is in memory."
    FilmsRefused "films_refused" Total "Requested files that cannot be streamed."
    LimitConnections "limit_hits_connections_max" Limit "Connections refused, or closed in favour of new ones, because too many were open."
    LimitConnectionsPerAddress "limit_hits_connections_per_address" Limit "Connections refused because too many were open from their address."
    LimitSessionlessConnections "limit_hits_sessionless_connections_max" Limit "Connections closed because too many had no session and others were new."
    LimitSessions "limit_hits_sessions_max" Limit "Sessions refused because there were too many."
    LimitSessionsPerAddress "limit_hits_sessions_per_address" Limit "Sessions refused because there were too many from their address."
    LimitSetups "limit_hits_setups_max" Limit "Sessions ended because too many had never played and others were new."
    LimitSetup "limit_hits_setup_timeout" Limit "Sessions ended because they did not start to play in time."
    LimitHead "limit_hits_head_timeout" Limit "Connections closed because a request took too long to arrive."
    LimitOpen "limit_hits_open_timeout" Limit "Requests answered 503 because opening the film took too long."
    LimitReadDelay "limit_hits_read_delay_max" Limit "Requests for new sessions answered 503 because the data of playing ones came too late from the disk."
    LimitIdle "limit_hits_idle_timeout" Limit "Connections closed because they had neither a session nor a request."
    LimitSend "limit_hits_send_timeout" Limit "Connections closed because the client read nothing."
    LimitFailures "limit_hits_authentication_failures" Limit "Requests answered 503 because too many from their address had a wrong user name or password."
    LogLinesDropped "log_lines_dropped" Total "Access log lines dropped because the log could not keep up."
}

const COUNT: usize = Counter::ALL.len();

/// The histogram buckets on the metrics page, in seconds.
pub const EDGES_SECONDS: &[f64] = &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    values: [u64; COUNT],
    /// How much later packets were sent than they were due.
    pub lateness: Histogram,
    /// CPU time of loop iterations that sent anything: the server's own part of lateness.
    pub iteration_cpu: Histogram,
    /// How long the loop was ready and waited for a core; `None` if the system does not report it.
    pub core_wait: Option<Nanos>,
}

impl Default for Counts {
    fn default() -> Self {
        Counts {
            values: [0; COUNT],
            lateness: Histogram::coarse(),
            iteration_cpu: Histogram::coarse(),
            core_wait: None,
        }
    }
}

impl Counts {
    pub fn value(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }

    pub fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    pub fn add(&mut self, counter: Counter, amount: u64) {
        self.values[counter as usize] += amount;
    }

    /// Sets a counter that is maintained elsewhere.
    pub fn set(&mut self, counter: Counter, value: u64) {
        self.values[counter as usize] = value;
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(COUNT + 3))?;
        for counter in Counter::ALL {
            map.serialize_entry(counter.key(), &self.value(*counter))?;
        }
        map.serialize_entry("send_lateness_seconds", &self.lateness.summary())?;
        map.serialize_entry("iteration_cpu_seconds", &self.iteration_cpu.summary())?;
        map.serialize_entry("core_wait_seconds", &self.core_wait.map(Nanos::seconds))?;
        map.end()
    }
}

/// The counts last published by the event loop, for concurrent readers.
#[derive(Debug, Default)]
pub struct Published(Mutex<Counts>);

impl Published {
    /// Shows `counts` from now on.
    pub fn publish(&self, counts: &Counts) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(counts);
    }

    pub fn read(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl admin::Figures for Published {
    fn page(&self) -> String {
        page(&self.read())
    }

    fn json(&self) -> String {
        serde_json::to_string(&self.read()).expect("numbers can be written")
    }
}

pub fn page(counts: &Counts) -> String {
    let mut page = String::with_capacity(8 * 1024);
    for counter in Counter::ALL.iter().filter(|counter| counter.kind() != Kind::Limit) {
        let (key, kind) = (counter.key(), counter.kind());
        let name = metrics::counter_family(&mut page, "sojourn_stream_", key, kind, counter.help());
        let _ = writeln!(page, "{name} {}", counts.value(*counter));
    }
    let limits = Counter::ALL.iter().filter(|counter| counter.kind() == Kind::Limit);
    metrics::limits(&mut page, limits.map(|counter| (counter.key(), counts.value(*counter))));
    let help = "How late samples were sent.";
    histogram(&mut page, "send_lateness_seconds", help, &counts.lateness);
    let help = "CPU time of the event-loop iterations that sent anything.";
    histogram(&mut page, "iteration_cpu_seconds", help, &counts.iteration_cpu);
    if let Some(wait) = counts.core_wait {
        let name = "sojourn_stream_core_wait_seconds_total";
        let help = "How long the event loop was runnable and waited for a core.";
        metrics::family(&mut page, name, "counter", help);
        let _ = writeln!(page, "{name} {}", wait.seconds());
    }
    metrics::process(&mut page);
    page
}

fn histogram(page: &mut String, key: &str, help: &str, times: &Histogram) {
    let name = format!("sojourn_stream_{key}");
    metrics::family(page, &name, "histogram", help);
    for edge in EDGES_SECONDS {
        let within = times.count() - times.count_above(Nanos::from_seconds(*edge));
        let _ = writeln!(page, "{name}_bucket{{le=\"{edge}\"}} {within}");
    }
    let count = times.count();
    let _ = writeln!(page, "{name}_bucket{{le=\"+Inf\"}} {count}");
    let sum = times.mean_seconds().unwrap_or(0.0) * count as f64;
    let _ = writeln!(page, "{name}_sum {sum}\n{name}_count {count}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_and_its_limits() {
        let mut counts = Counts::default();
        counts.add(Counter::Packets, 3);
        counts.count(Counter::LimitSessions);
        for nanoseconds in [0, 3_000_000, 700_000_000] {
            counts.lateness.record(Nanos(nanoseconds));
        }
        assert!(!page(&counts).contains("core_wait"), "nobody knows");
        counts.iteration_cpu.record(Nanos(1_500_000));
        counts.core_wait = Some(Nanos(250_000_000));
        let page = page(&counts);
        for line in [
            "sojourn_stream_packets_sent_total 3",
            "sojourn_limit_hits_total{limit=\"sessions-max\"} 1",
            "# TYPE sojourn_stream_send_lateness_seconds histogram",
            "sojourn_stream_send_lateness_seconds_bucket{le=\"0.001\"} 1",
            "sojourn_stream_send_lateness_seconds_bucket{le=\"0.005\"} 2",
            "sojourn_stream_send_lateness_seconds_bucket{le=\"+Inf\"} 3",
            "sojourn_stream_send_lateness_seconds_count 3",
            "sojourn_stream_iteration_cpu_seconds_bucket{le=\"0.001\"} 0",
            "sojourn_stream_iteration_cpu_seconds_bucket{le=\"0.002\"} 1",
            "sojourn_stream_core_wait_seconds_total 0.25",
        ] {
            assert!(page.lines().any(|there| there == line), "{line} is not in\n{page}");
        }
    }
}
