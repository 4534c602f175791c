//! The counters as a page in the Prometheus text format.

use std::fmt::Write;

use crate::counters::{Counter, Kind, Served};

/// The page.
pub fn page(served: &Served) -> String {
    let mut page = String::with_capacity(8 * 1024);
    for counter in Counter::ALL {
        let (suffix, kind) = match counter.kind() {
            Kind::Total | Kind::Seconds => ("_total", "counter"),
            Kind::Gauge => ("", "gauge"),
        };
        let (key, help) = (counter.key(), counter.help());
        let value = match counter.kind() {
            Kind::Seconds => served.seconds(*counter).to_string(),
            Kind::Total | Kind::Gauge => served.value(*counter).to_string(),
        };
        let name = format!("sojourn_{key}{suffix}");
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_and_gauges() {
        let mut served = Served::default();
        served.add(Counter::Requests, 7);
        let page = page(&served);
        assert!(page.starts_with(
            "# HELP sojourn_requests_total Requests answered.\n# TYPE sojourn_requests_total counter\n\
             sojourn_requests_total 7\n"
        ));
        assert!(page.contains("\n# TYPE sojourn_connections_open gauge\nsojourn_connections_open 0\n"));
    }
}
