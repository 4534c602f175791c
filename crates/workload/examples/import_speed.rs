//! How fast a log is imported: `cargo run --release --example import_speed -- LOG [REPEAT [FORMAT]]`.
//!
//! The log is held in memory, repeated, and imported as if it were one long file; what is printed is wall
//! clock, so leave the machine alone.

use std::io::{self, Cursor, Read, Write};
use std::ops::ControlFlow;
use std::time::Instant;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_workload::import;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path =
        arguments.next().ok_or_else(|| io::Error::other("usage: import_speed LOG [REPEAT [FORMAT]]"))?;
    let repeat = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(20);
    let format = arguments.next().map(|text| import::Format::new(&text, &[]).map_err(io::Error::other));
    let options = import::Options { format: format.transpose()?, ..import::Options::default() };
    let mut log = Vec::new();
    std::fs::File::open(path)?.read_to_end(&mut log)?;
    let log = log.repeat(repeat);

    let begin = Instant::now();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let go_on = |_| ControlFlow::Continue(());
    let imported =
        import::import(Cursor::new(&log), &options, &mut random, go_on).map_err(io::Error::other)?;
    let seconds = begin.elapsed().as_secs_f64();
    let report = imported.report;
    let megabytes = report.bytes as f64 / 1e6;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{}: {} lines, {} requests, {megabytes:.0} MB in {seconds:.2} s: {:.0} MB/s, {:.0} ns per line",
        report.format,
        report.lines,
        report.requests,
        megabytes / seconds,
        seconds * 1e9 / report.lines as f64,
    )
}
