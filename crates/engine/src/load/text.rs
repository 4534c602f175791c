//! The result as text for people: the whole run, latencies, steps, and whether to trust it.

use std::io::{self, Write};

use sojourn_load::{Report, webstone::WebStone};
use sojourn_measure::Summary;

use super::result::RunResult;

pub fn write_text(output: &mut impl Write, result: &RunResult) -> io::Result<()> {
    let report = &result.report;
    let all = &report.figures;
    writeln!(output, "{} of {}, {} connections", result.tool, result.url, result.connection)?;
    if let Some(why) = &report.stopped_because {
        let state = if report.complete { "stopped early" } else { "NOT COMPLETE" };
        writeln!(output, "{state}: {why}")?;
    }
    if let Some(why) = &result.failed_because {
        writeln!(output, "FAILED: {why}")?;
    }
    if let Some(offered) = offered(report) {
        writeln!(output, "offered: {offered}")?;
    }
    writeln!(
        output,
        "{} requests in {:.1} s: {} requests/s, {} MB/s; {} failed, {} unfinished",
        all.requests,
        all.duration_seconds,
        number(all.requests_per_second),
        number(all.bytes_per_second.map(|bytes| bytes / 1e6)),
        all.errors,
        all.unfinished,
    )?;
    if all.redirects > 0 {
        writeln!(output, "  {} redirections followed", all.redirects)?;
    }
    if all.abandoned > 0 {
        let share = number(all.abandoned_fraction.map(|share| share * 100.0));
        writeln!(output, "  {} abandoned ({share} % of those due)", all.abandoned)?;
    }
    if all.skipped > 0 {
        writeln!(output, "  {} arrivals skipped", all.skipped)?;
    }
    for (cause, count) in &all.errors_by_cause {
        writeln!(output, "  {count} {cause}")?;
    }
    write_times_head(output)?;
    write_row(output, "response time", &all.response_time_seconds)?;
    write_row(output, "  from the actual send", &all.response_time_sent_seconds)?;
    write_row(output, "time to first byte", &all.time_to_first_byte_seconds)?;
    write_row(output, "  from the intended start", &all.time_to_first_byte_intended_seconds)?;
    write_row(output, "transfer", &all.transfer_time_seconds)?;
    write_row(output, "connect", &all.connect_time_seconds)?;
    if all.handshake_time_seconds.count > 0 {
        write_row(output, "TLS handshake", &all.handshake_time_seconds)?;
    }
    write_row(output, "generator's lateness", &all.send_lag_seconds)?;
    if let Some(lag) = all.receive_lag_seconds.value() {
        write_row(output, "  looking for answers", lag)?;
    }
    write_names(output, report)?;
    write_steps(output, report)?;
    write_undisturbed(output, report)?;
    if let Some(webstone) = &result.webstone {
        write_webstone(output, webstone)?;
    }
    let generator = &report.generator;
    let busy = number(generator.cpu_fraction.map(|fraction| fraction * 100.0));
    writeln!(
        output,
        "\ngenerator: {busy} % of a core, {} event-loop iterations/s{}",
        number(generator.iterations_per_second),
        if generator.real_time { ", real-time priority" } else { "" }
    )?;
    let late = generator.send_lag_p99_seconds.map(|seconds| seconds * 1e3);
    writeln!(
        output,
        "  99 % sent within {} ms of when they were due ({} ms allowed; timer slack {} ms)",
        number(late),
        number(Some(generator.send_lag_limit_seconds * 1e3)),
        number(Some(generator.timer_slack_seconds * 1e3)),
    )?;
    write_warnings(output, &generator.reasons, &report.warnings)
}

/// The offered load; for several steps, from the first to the last.
fn offered(report: &Report) -> Option<String> {
    let said = report.steps.iter().map(|step| {
        let rate = step.offered_requests_per_second.map(|rate| format!("{} requests/s", number(Some(rate))));
        rate.or_else(|| step.clients.map(|clients| format!("{clients} clients")))
    });
    let said: Vec<_> = said.collect::<Option<_>>()?;
    match said.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        [first, .., last] => Some(format!("{first} to {last} in {} steps", said.len())),
    }
}

fn write_webstone(output: &mut impl Write, webstone: &WebStone) -> io::Result<()> {
    writeln!(output, "\nby WebStone's definitions")?;
    let rows = [
        ("server connection rate, 1/s", webstone.server_connection_rate_per_second),
        ("server error rate, 1/s", webstone.server_error_rate_per_second),
        ("error level, %", webstone.error_level_percent),
        ("server thruput, Mbit/s (1024²)", webstone.server_throughput_mebibit_per_second),
        ("Little's load factor", webstone.littles_load_factor),
        ("average response time, ms", webstone.average_response_time_ms),
        ("average client thruput, Mbit/s", webstone.average_client_throughput_mebibit_per_second),
    ];
    rows.iter().try_for_each(|(name, value)| writeln!(output, "  {name:32} {:>9}", number(*value)))
}

fn write_names(output: &mut impl Write, report: &Report) -> io::Result<()> {
    let names = &report.figures.by_name;
    if names.is_empty() {
        return Ok(());
    }
    if let Some(users) = &report.users {
        let rows = users.rows.map(|rows| format!(", {rows} rows in their file")).unwrap_or_default();
        writeln!(output, "\n{} users{rows}", users.users)?;
    }
    let width = names.iter().map(|named| named.name.chars().count()).max().unwrap_or(0).clamp(7, 40);
    write!(output, "{:width$}", "request")?;
    let header = ["requests", "1/s", "failed", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "p99.9 ms"];
    header.iter().try_for_each(|name| write!(output, " {name:>8}"))?;
    writeln!(output)?;
    for named in names {
        let times = &named.response_time_seconds;
        write!(output, "{:width$}", named.name)?;
        write!(output, " {:>8} {:>8}", named.requests, number(named.requests_per_second))?;
        write!(output, " {:>8}", named.errors)?;
        for seconds in [times.p50, times.p90, times.p95, times.p99, times.p999] {
            write!(output, " {:>8}", number(seconds.map(|seconds| seconds * 1e3)))?;
        }
        for (cause, count) in &named.errors_by_cause {
            write!(output, "  {count} {cause}")?;
        }
        if named.redirects > 0 {
            write!(output, "  {} redirections", named.redirects)?;
        }
        if named.abandoned > 0 {
            write!(output, "  {} abandoned", named.abandoned)?;
        }
        writeln!(output)?;
    }
    for named in names {
        if let Some(words) = &named.first_failure {
            writeln!(output, "{}, the first answer that failed: {words}", named.name)?;
        }
    }
    Ok(())
}

fn write_steps(output: &mut impl Write, report: &Report) -> io::Result<()> {
    if report.steps.len() < 2 {
        return Ok(());
    }
    let header = ["offered/s", "answered/s", "p95 ms", "in flight", "failed", "unfinished", "steady"];
    writeln!(output)?;
    header.iter().try_for_each(|name| write!(output, "{name:>11}"))?;
    writeln!(output)?;
    for step in &report.steps {
        let p95 = step.figures.time_to_first_byte_intended_seconds.p95;
        writeln!(
            output,
            "{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}",
            number(step.offered_requests_per_second),
            number(step.figures.requests_per_second),
            number(p95.map(|seconds| seconds * 1e3)),
            number(step.in_flight_mean),
            step.figures.errors,
            step.figures.unfinished,
            if step.steady { "yes" } else { "no" },
        )?;
    }
    Ok(())
}

/// Writes each step's response times twice: over all windows, and over undisturbed ones.
fn write_undisturbed(output: &mut impl Write, report: &Report) -> io::Result<()> {
    let judged = report.steps.iter().map(|step| step.undisturbed.value().map(|over| (step, over)));
    let known: Vec<_> = judged.enumerate().filter_map(|(place, step)| Some((place + 1, step?))).collect();
    if known.is_empty() {
        return Ok(());
    }
    writeln!(output, "\nresponse times over all windows, and over the undisturbed ones")?;
    for (number, (step, over)) in known {
        let step_number = if report.steps.len() > 1 { format!("{number}: ") } else { String::new() };
        write_row(
            output,
            &format!("{step_number}all {}", over.windows_total),
            &step.figures.response_time_seconds,
        )?;
        write_row(
            output,
            &format!("{step_number}{} undisturbed", over.windows),
            &over.response_time_seconds,
        )?;
    }
    Ok(())
}

/// Writes reasons not to trust the result, if there are any.
pub fn write_warnings(output: &mut impl Write, reasons: &[String], warnings: &[String]) -> io::Result<()> {
    let limit = "THE GENERATOR WAS THE LIMIT, not the server";
    reasons.iter().try_for_each(|why| writeln!(output, "{limit}: {why}"))?;
    warnings.iter().try_for_each(|warning| writeln!(output, "warning: {warning}"))
}

/// Writes the header of lines of times.
pub fn write_times_head(output: &mut impl Write) -> io::Result<()> {
    writeln!(
        output,
        "\n{:24} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "milliseconds", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"
    )
}

/// Writes a line of times in milliseconds.
pub fn write_row(output: &mut impl Write, name: &str, summary: &Summary) -> io::Result<()> {
    write!(output, "{name:24}")?;
    let shown = [summary.mean, summary.p50, summary.p90, summary.p95, summary.p99, summary.p999, summary.max];
    for seconds in shown {
        write!(output, " {:>7}", number(seconds.map(|seconds| seconds * 1e3)))?;
    }
    writeln!(output)
}

/// Three digits, or a dash if there is no value.
pub fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 1.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.4}"),
    }
}
