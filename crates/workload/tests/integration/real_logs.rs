//! Checks known facts of two public logs (Internet Traffic Archive), if they are available.
//!
//! The logs lie in the folder named by SOJOURN_TRACES, or else beside the checkout. Without them the tests say so and
//! pass, because the project does not distribute the logs.

use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::PathBuf;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_workload::characterise::{Table1, characterise};
use sojourn_workload::import::{Class, ClassCount, ImportReport, Imported, Options, import};

fn imported(name: &str) -> Option<(ImportReport, Table1)> {
    let beside = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces"));
    let path = std::env::var_os("SOJOURN_TRACES").map_or(beside, PathBuf::from).join(name);
    let Ok(file) = File::open(&path) else {
        eprintln!("skipped: there is no {}; set SOJOURN_TRACES to the folder of the logs", path.display());
        return None;
    };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let go_on = |_| ControlFlow::Continue(());
    let Imported { trace, report } =
        import(BufReader::new(file), &Options::default(), &mut random, go_on).unwrap();
    Some((report, characterise(&trace).unwrap().table1))
}

fn counts(classes: &[ClassCount]) -> Vec<(Class, u64)> {
    classes.iter().map(|class| (class.class, class.requests)).collect()
}

#[test]
fn calgary_1994() {
    let Some((report, table)) = imported("calgary_1994-10-24_1995-01-31.log.gz") else { return };
    assert_eq!(report.lines, 125_888);
    // Lines without a recognisable status and size: no closing quote (57), or a missing field (7).
    assert_eq!(report.malformed, 64);
    assert_eq!(report.malformed_examples[0].line, 5204);
    assert_eq!(report.bytes_sent, 1_673_011_420);
    assert_eq!((report.requests_by_status[&200], report.requests_by_status[&304]), (108_193, 7142));
    assert_eq!((report.clients, report.out_of_order_lines), (2, 10));
    assert_eq!((table.requests, table.files), (115_286, 6321));
    let coverage = &report.coverage;
    assert_eq!((coverage.requests, coverage.bytes), (125_824, 1_673_011_420));
    assert_eq!(coverage.peak_requests_per_second, 49.0 / 60.0);
}

#[test]
fn nasa_1995() {
    let Some((report, table)) = imported("nasa_ksc_1995-07-09.log.gz") else { return };
    assert_eq!((report.lines, report.malformed), (35_272, 0));
    assert_eq!(report.bytes_sent, 754_180_424);
    assert_eq!(report.utc_offset_seconds, -4 * 3600);
    assert_eq!(report.skipped.with_query, 546);
    assert_eq!((table.requests, table.files), (34_145, 2047));
    // Counted by awk. Three files look like dynamic pages, because clients aborted each transfer at a different size.
    let coverage = &report.coverage;
    assert_eq!((coverage.requests, coverage.bytes), (35_272, 754_180_424));
    assert_eq!(coverage.covered_requests, 34_145 - 27);
    assert_eq!(
        counts(&coverage.dynamic),
        [(Class::Query, 546), (Class::VaryingSize, 27), (Class::Method, 4)]
    );
    let left_out = [(Class::Failed, 348), (Class::Redirected, 227), (Class::OfUnknownSize, 2)];
    assert_eq!(counts(&coverage.left_out), left_out);
    assert_eq!(coverage.peak_requests_per_second, 85.0 / 60.0);
    assert_eq!(coverage.busiest_minute.begins, "1995-07-09T19:08:00-04:00");
    assert!((table.average_requests_per_second - 0.395).abs() < 0.001, "{table:?}");
    assert_eq!(table.peak_requests_per_second, 81.0 / 60.0);
}
