//! The counters as a page in the Prometheus text format, and the functions that write any such page.
//!
//! Not a Prometheus library: those own the metrics, while our counters live in shared memory and are summed over
//! workers when the page is read. The format itself is two lines per family and one per sample.

use std::fmt::Write;
use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use crate::CounterKind as Kind;
use crate::counters::{Counter, Served};

/// Counters also shown per worker or loop, to see how evenly work is spread.
const OF_EACH: &[Counter] = &[Counter::Requests, Counter::ConnectionsAccepted, Counter::ConnectionsOpen];

static STARTED: LazyLock<Duration> = LazyLock::new(|| UNIX_EPOCH.elapsed().unwrap_or_default());

/// Records the server's start time.
pub fn begin() {
    LazyLock::force(&STARTED);
}

/// The metrics page for `served` in total, and per worker if there are several `workers`.
pub fn page(served: &Served, workers: &[Served]) -> String {
    let mut page = String::with_capacity(8 * 1024);
    for counter in Counter::ALL.iter().filter(|counter| counter.kind() != Kind::Limit) {
        let name = counter_family(&mut page, "sojourn_", counter.key(), counter.kind(), counter.help());
        let _ = writeln!(page, "{name} {}", value(served, *counter));
    }
    let hits = Counter::ALL.iter().filter(|counter| counter.kind() == Kind::Limit);
    limits(&mut page, hits.map(|counter| (counter.key(), served.value(*counter))));
    process(&mut page);
    // With one worker these would repeat the totals.
    for counter in OF_EACH.iter().filter(|_| workers.len() > 1) {
        let help = format!("{} By one worker.", counter.help());
        let name = counter_family(&mut page, "sojourn_worker_", counter.key(), counter.kind(), &help);
        for (number, worker) in workers.iter().enumerate() {
            let _ = writeln!(page, "{name}{{worker=\"{number}\"}} {}", value(worker, *counter));
        }
    }
    page
}

/// The program's version and start time, from which uptime and restarts follow.
pub fn process(page: &mut String) {
    let (build, start) = ("sojourn_build_info", "sojourn_start_time_seconds");
    family(page, build, "gauge", "The program's version.");
    let _ = writeln!(page, "{build}{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    family(page, start, "gauge", "Start time of the server, in seconds since 1970.");
    let _ = writeln!(page, "{start} {}", STARTED.as_secs_f64());
}

/// One metric for all limits, labelled with the options' names: keys without `limit_hits_`.
pub fn limits<'k>(page: &mut String, hits: impl Iterator<Item = (&'k str, u64)>) {
    let name = "sojourn_limit_hits_total";
    family(page, name, "counter", "How often a limit was reached.");
    for (key, count) in hits {
        let limit = key.trim_start_matches("limit_hits_").replace('_', "-");
        let _ = writeln!(page, "{name}{{limit=\"{limit}\"}} {count}");
    }
}

/// Writes the head of a counter's family; returns the family's name, which ends in `_total` unless it is a gauge.
pub fn counter_family(page: &mut String, prefix: &str, key: &str, kind: Kind, help: &str) -> String {
    let (suffix, kind) = match kind {
        Kind::Total | Kind::Seconds | Kind::Limit => ("_total", "counter"),
        Kind::Gauge => ("", "gauge"),
    };
    let name = format!("{prefix}{key}{suffix}");
    family(page, &name, kind, help);
    name
}

/// Writes the head of a metric family: its help and its type.
pub fn family(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn value(served: &Served, counter: Counter) -> String {
    match counter.kind() {
        Kind::Seconds => served.seconds(counter).to_string(),
        Kind::Total | Kind::Gauge | Kind::Limit => served.value(counter).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_and_gauges() {
        let mut served = Served::default();
        served.add(Counter::Requests, 7);
        let page = page(&served, &[served.clone(), Served::default()]);
        assert!(page.starts_with(
            "# HELP sojourn_requests_total Requests answered.\n# TYPE sojourn_requests_total counter\n\
             sojourn_requests_total 7\n"
        ));
        assert!(page.contains("\n# TYPE sojourn_connections_open gauge\nsojourn_connections_open 0\n"));
        assert!(page.contains(
            "\n# TYPE sojourn_worker_requests_total counter\nsojourn_worker_requests_total{worker=\"0\"} 7\n\
             sojourn_worker_requests_total{worker=\"1\"} 0\n"
        ));
    }

    /// The rules of `promtool check metrics` about names and order.
    #[test]
    fn the_page_keeps_the_rules_of_prometheus() {
        let page = page(&Served::default(), &[Served::default(), Served::default()]);
        let mut kinds: Vec<(&str, &str)> = Vec::new();
        let mut lines = page.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, text) = help.split_once(' ').unwrap();
                let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE ")).unwrap();
                let (typed, kind) = kind.split_once(' ').unwrap();
                assert!(typed == name && text.ends_with('.'), "{line}");
                assert!(kinds.iter().all(|(known, _)| *known != name), "{name} twice");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
                let units = ["_milliseconds", "_ms", "_us", "_ns", "_kilobytes", "_percent"];
                assert!(!units.iter().any(|unit| name.contains(unit)), "{name} has no base unit");
                kinds.push((name, kind));
                continue;
            }
            let (name, value) = line.rsplit_once(' ').unwrap();
            let name = name.split('{').next().unwrap();
            assert_eq!(kinds.last().unwrap().0, name, "its lines stand together, under what it means");
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            );
            assert!(name.starts_with("sojourn_") && value.parse::<f64>().is_ok(), "{line}");
        }
        assert!(kinds.len() > 40 && page.ends_with('\n'));
    }
}
