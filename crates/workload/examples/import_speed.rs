//! Measures the speed of log import, sessions included: `make bench-import`, or for your own log `cargo run --release
//! --example import_speed -- LOG [REPEAT [FORMAT [PARSERS]]]`.
//!
//! Without a log, the example writes a synthetic day in every named format and in two format strings. It imports the
//! bytes from memory, repeated as if they were one long file, and discards the trace file; sorting spills to memory,
//! too. It prints the best of three runs by the thread's CPU time. With PARSERS other threads, that is the time of the
//! thread that collects, and the elapsed time is beside it. Other load on the machine still disturbs these times somewhat, so
//! leave the machine alone.

use std::io::{self, Cursor, Write};
use std::ops::ControlFlow;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_measure::clock;
use sojourn_workload::import::{self, Entry, Format, ImportReport, Log, Options};
use sojourn_workload::sorting::{SORT_BYTES, Scratch, Spill};
use sojourn_workload::synthesis::{Synthesis, synthesise};

const REPEAT: usize = 20;
const TRIALS: usize = 3;
const COMBINED: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-agent}i""#;
const NGINX: &str =
    r#"$remote_addr - $host [$msec] "$request" $status $body_bytes_sent $request_time "$http_user_agent""#;
const AGENT: &str =
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)";

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    if let Some(path) = arguments.next() {
        let repeat = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(REPEAT);
        let format = arguments.next();
        let parsers = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(0);
        return measure(format.as_deref(), &std::fs::read(path)?, repeat, parsers);
    }
    let mut combined = Vec::new();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    synthesise(&Synthesis::default(), &mut random, &mut combined).map_err(io::Error::other)?;
    measure(Some("combined"), &combined, REPEAT, 0)?;
    measure(Some(COMBINED), &combined, REPEAT, 0)?;
    for (format, header, spell) in SPELLINGS {
        measure(Some(format), &rewritten(&combined, header, spell), REPEAT, 0)?;
    }
    Ok(())
}

fn measure(format: Option<&str>, log: &[u8], repeat: usize, parsers: usize) -> io::Result<()> {
    let format = format
        .filter(|text| *text != "-")
        .map(|text| Format::new(text, &[]).map_err(io::Error::other))
        .transpose()?;
    let options = Options { format, parsers, ..Options::default() };
    let log = log.repeat(repeat);
    let mut best: Option<(f64, f64, ImportReport)> = None;
    for _ in 0..TRIALS {
        let (begin, began) = (clock::thread_cpu(), clock::now());
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut open = || Ok(Box::new(Cursor::new(Vec::new())) as Box<dyn Scratch>);
        let spill = Spill { budget_bytes: SORT_BYTES, open: &mut open };
        let go_on = |_| ControlFlow::Continue(());
        let logs = std::iter::once(Log { may_read_ahead: true, ..Log::only(Cursor::new(&log)) });
        let imported = import::import_logs_to_file(logs, &options, &mut random, spill, io::sink(), go_on);
        let report = imported.map_err(io::Error::other)?;
        let seconds = (clock::thread_cpu() - begin).seconds();
        let elapsed = (clock::now() - began).seconds();
        best = best.filter(|(fastest, ..)| *fastest <= seconds).or(Some((seconds, elapsed, report)));
    }
    let Some((seconds, elapsed, report)) = best else { return Ok(()) };
    let megabytes = report.bytes as f64 / 1e6;
    writeln!(
        io::stdout().lock(),
        "{:5.0} MB/s of CPU time {:5.0} ns/line  {:9} lines {:9} requests {megabytes:6.0} MB {elapsed:6.2} s elapsed  {}",
        megabytes / seconds,
        seconds * 1e9 / report.lines as f64,
        report.lines,
        report.requests,
        report.format,
    )
}

type Spell = fn(&Entry<'_>, f64, &str, &str, u64) -> String;

/// A format: its name, its header lines, and a function that writes a line from an entry's time, client, target and
/// size.
const SPELLINGS: [(&str, &str, Spell); 4] = [
    (NGINX, "", |entry, time, client, target, size| {
        format!(
            "{client} - example.com [{time:.3}] \"GET {target} HTTP/1.1\" {} {size} 0.010 \"{AGENT}\"",
            entry.status
        )
    }),
    ("squid", "", |entry, time, client, target, size| {
        let status = entry.status;
        format!(
            "{time:.3} {:6} {client} TCP_MISS/{status} {size} GET http://example.com{target} - HIER_DIRECT/192.0.2.1 text/html",
            10
        )
    }),
    (
        "w3c",
        "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port c-ip cs(User-Agent) sc-status sc-bytes time-taken\n",
        |entry, time, client, target, size| {
            let clock = time as u64 % 86_400;
            let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
            let agent = AGENT.replace(' ', "+");
            let (path, query) = target.split_once('?').unwrap_or((target, "-"));
            let status = entry.status;
            format!(
                "2024-05-15 {hour:02}:{minute:02}:{second:02} 10.0.0.1 GET {path} {query} 443 {client} {agent} {status} {size} 10"
            )
        },
    ),
    ("json", "", |entry, time, client, target, size| {
        let status = entry.status;
        format!(
            r#"{{"level":"info","ts":{time:.3},"logger":"http.log.access","request":{{"remote_ip":"{client}","client_ip":"{client}","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"{target}","headers":{{"User-Agent":["{AGENT}"]}}}},"duration":0.010,"size":{size},"status":{status}}}"#
        )
    }),
];

/// Rewrites the entries of a combined log in another format.
fn rewritten(combined: &[u8], header: &str, spell: Spell) -> Vec<u8> {
    let mut format = Format::new("combined", &[]).expect("it has a name");
    let mut out = header.as_bytes().to_vec();
    for line in combined.split(|&byte| byte == b'\n') {
        let Ok(Some(entry)) = format.read(line) else { continue };
        let (client, target) =
            (String::from_utf8_lossy(&entry.client), String::from_utf8_lossy(&entry.target));
        let time = entry.unix_ns as f64 / 1e9 + 0.123;
        out.extend(spell(&entry, time, &client, &target, entry.size_bytes.unwrap_or(0)).bytes());
        out.push(b'\n');
    }
    out
}
