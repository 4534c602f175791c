//! The counters as a page in the Prometheus text format.

use std::fmt::Write;

use crate::counters::{Counter, Kind, Served};

/// What is also shown for each worker or loop by itself: how evenly the work is spread.
const OF_EACH: &[Counter] = &[Counter::Requests, Counter::ConnectionsAccepted, Counter::ConnectionsOpen];

/// The page: what all have `served`, and each of several `workers`.
pub fn page(served: &Served, workers: &[Served]) -> String {
    let mut page = String::with_capacity(8 * 1024);
    for counter in Counter::ALL.iter().filter(|counter| counter.kind() != Kind::Limit) {
        let (name, kind) = name_and_kind(*counter, "sojourn_");
        let _ = writeln!(page, "# HELP {name} {}\n# TYPE {name} {kind}", counter.help());
        let _ = writeln!(page, "{name} {}", value(served, *counter));
    }
    limits(&mut page, served);
    // Of one alone it would say the same again.
    for counter in OF_EACH.iter().filter(|_| workers.len() > 1) {
        let (name, kind) = name_and_kind(*counter, "sojourn_worker_");
        let _ = writeln!(page, "# HELP {name} {} By one worker.\n# TYPE {name} {kind}", counter.help());
        for (number, worker) in workers.iter().enumerate() {
            let _ = writeln!(page, "{name}{{worker=\"{number}\"}} {}", value(worker, *counter));
        }
    }
    page
}

/// One metric for all limits, which are told apart by the names of their options.
fn limits(page: &mut String, served: &Served) {
    let name = "sojourn_limit_hits_total";
    let _ = writeln!(page, "# HELP {name} How often a limit on clients was reached.\n# TYPE {name} counter");
    for counter in Counter::ALL.iter().filter(|counter| counter.kind() == Kind::Limit) {
        let limit = counter.key().trim_start_matches("limit_hits_").replace('_', "-");
        let _ = writeln!(page, "{name}{{limit=\"{limit}\"}} {}", served.value(*counter));
    }
}

fn name_and_kind(counter: Counter, prefix: &str) -> (String, &'static str) {
    let (suffix, kind) = match counter.kind() {
        Kind::Total | Kind::Seconds | Kind::Limit => ("_total", "counter"),
        Kind::Gauge => ("", "gauge"),
    };
    (format!("{prefix}{}{suffix}", counter.key()), kind)
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
}
