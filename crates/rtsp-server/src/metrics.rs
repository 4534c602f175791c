//! The counters as a page in the Prometheus text format.

use std::fmt::Write;

use sojourn_measure::{Histogram, Nanos};
use sojourn_server::{CounterKind as Kind, admin, metrics};

use super::counters::{Counter, Counts, EDGES_SECONDS, Published};

impl admin::Figures for Published {
    fn page(&self) -> String {
        page(&self.read())
    }

    fn json(&self) -> String {
        serde_json::to_string(&self.read()).expect("numbers can be written")
    }
}

/// The page.
pub fn page(counts: &Counts) -> String {
    let mut page = String::with_capacity(8 * 1024);
    for counter in Counter::ALL.iter().filter(|counter| counter.kind() != Kind::Limit) {
        let (suffix, kind) = match counter.kind() {
            Kind::Total | Kind::Seconds | Kind::Limit => ("_total", "counter"),
            Kind::Gauge => ("", "gauge"),
        };
        let name = format!("sojourn_stream_{}{suffix}", counter.key());
        let _ = writeln!(page, "# HELP {name} {}\n# TYPE {name} {kind}", counter.help());
        let _ = writeln!(page, "{name} {}", counts.value(*counter));
    }
    let limits = Counter::ALL.iter().filter(|counter| counter.kind() == Kind::Limit);
    metrics::limits(&mut page, limits.map(|counter| (counter.key(), counts.value(*counter))));
    let help = "How long after it was due a sample was sent.";
    histogram(&mut page, "send_lateness_seconds", help, &counts.lateness);
    let help = "CPU time of the turns of the loop that sent anything.";
    histogram(&mut page, "turn_cpu_seconds", help, &counts.turn_cpu);
    if let Some(wait) = counts.core_wait {
        let name = "sojourn_stream_core_wait_seconds_total";
        let help = "How long the loop was ready to go on and waited for a core.";
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {}", wait.seconds());
    }
    metrics::process(&mut page);
    page
}

fn histogram(page: &mut String, key: &str, help: &str, times: &Histogram) {
    let name = format!("sojourn_stream_{key}");
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} histogram");
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
        counts.turn_cpu.record(Nanos(1_500_000));
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
            "sojourn_stream_turn_cpu_seconds_bucket{le=\"0.001\"} 0",
            "sojourn_stream_turn_cpu_seconds_bucket{le=\"0.002\"} 1",
            "sojourn_stream_core_wait_seconds_total 0.25",
        ] {
            assert!(page.lines().any(|there| there == line), "{line} is not in\n{page}");
        }
    }
}
