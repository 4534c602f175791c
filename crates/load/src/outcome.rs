//! What a run leaves, and the report made of it.

use std::{io, iter, ops::Add, time::SystemTime};

use sojourn_measure::{
    Histogram, Nanos, Reading,
    core_time::CoreTime,
    interval_log::{self, Interval},
};

use crate::{
    Cause, Schedule, Step,
    check::{self, Little, SteadyEvidence, Suspect},
    ledger::{Ledger, StepRecord},
    mark::StepMarks,
    report::{Figures, Generator, Report, StepReport},
    run::Stopped,
    span::Span,
    timeline::Timeline,
};

/// All that a run left.
pub struct Outcome {
    pub(crate) stopped: Stopped,
    pub(crate) started_at: SystemTime,
    pub(crate) closed_clients: Option<u32>,
    pub(crate) mean_think: Option<Nanos>,
    pub(crate) origin: Nanos,
    pub(crate) schedule: Schedule,
    pub(crate) ledger: Ledger,
    pub(crate) marks: Vec<StepMarks>,
    pub(crate) timeline: Option<Timeline>,
}

impl Outcome {
    /// The result.
    pub fn report(&self) -> Report {
        let steps: Vec<StepReport> = self.measured().map(|measured| self.step(&measured)).collect();
        let mut whole = StepRecord::default();
        let mut total = Total::default();
        for Measured { record, span, .. } in self.measured() {
            whole.merge(record);
            total.add(&span);
        }
        let stopped_because = match &self.stopped {
            Stopped::Completed => None,
            Stopped::Interrupted => Some("interrupted".to_owned()),
            Stopped::Failing(why) | Stopped::ServerGone(why) => Some(why.clone()),
        };
        Report {
            complete: matches!(self.stopped, Stopped::Completed | Stopped::Failing(_)),
            interrupted: self.stopped == Stopped::Interrupted,
            stopped_because,
            figures: figures(&whole, &total),
            generator: self.generator(&whole, &total, &steps),
            steps,
        }
    }

    /// Writes every step's histograms as one HDR interval log, the kind of latency as the tag.
    pub fn write_histograms(&self, output: &mut impl io::Write) -> io::Result<()> {
        let rows = self.measured().flat_map(|Measured { step, record, span, .. }| {
            let row = move |(tag, histogram)| Interval {
                tag,
                start: step.measured_from(),
                length: Nanos::from_seconds(span.seconds()),
                histogram,
            };
            latencies(record).into_iter().map(row)
        });
        let comment = concat!("Written by sojourn ", env!("CARGO_PKG_VERSION"), ", values in nanoseconds");
        interval_log::write(output, self.started_at, comment, rows)
    }

    /// How the run went, if the plan asked for a timeline.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }

    /// The steps that have a beginning and an end.
    fn measured(&self) -> impl Iterator<Item = Measured<'_>> {
        let steps = self.schedule.steps().iter().zip(&self.ledger.steps).zip(&self.marks);
        steps.filter_map(|((step, record), marks)| {
            let span = Span::between(marks.from.as_ref()?, marks.end.as_ref()?);
            Some(Measured { step, record, marks, span })
        })
    }

    fn step(&self, measured: &Measured<'_>) -> StepReport {
        let Measured { step, record, marks, span } = measured;
        let mut total = Total::default();
        total.add(span);
        let figures = figures(record, &total);
        let evidence = SteadyEvidence::of(marks);
        let little = self.closed_clients.zip(self.mean_think).zip(figures.requests_per_second);
        let little = little
            .zip(figures.response_time_seconds.mean)
            .map(|(((clients, think), rate), response)| Little::of(clients, rate, response, think.seconds()));
        let server = span.server_use();
        let saturated = server.as_ref().is_some_and(check::is_saturated);
        StepReport {
            start_seconds: (span.start() - self.origin).seconds(),
            offered_requests_per_second: step.offered_requests_per_second,
            clients: self.closed_clients,
            sessions_started: span.growth(|mark| mark.totals.sessions_started),
            connections_opened: span.growth(|mark| mark.totals.connections_opened),
            reconnects: span.growth(|mark| mark.totals.reconnects),
            connections_open_mean: span.connections_open_mean(),
            in_flight_mean: span.in_flight_mean(),
            steady: evidence.as_ref().is_some_and(|evidence| evidence.is_steady(span.seconds())),
            steady_evidence: evidence,
            little,
            response_bytes_mean: (record.answered > 0)
                .then(|| record.body_bytes as f64 / record.answered as f64),
            generator: generator(record, &total, self.suspicion(record, &total, saturated)),
            server,
            tcp: span.tcp_trouble(),
            figures,
        }
    }

    fn suspicion(&self, record: &StepRecord, total: &Total, server_saturated: bool) -> Option<String> {
        let suspect = Suspect {
            cpu_fraction: total.generator_cpu_fraction().unwrap_or(0.0),
            send_lag_p99_seconds: record.send_lag.quantile_seconds(0.99),
            core_wait_fraction: total.core_wait_fraction().value().copied(),
            server_saturated,
            closed: self.closed_clients.is_some(),
            errors: &record.errors,
        };
        suspect.limited_because()
    }

    /// The run is limited where one of its steps is.
    fn generator(&self, whole: &StepRecord, total: &Total, steps: &[StepReport]) -> Generator {
        let limited = iter::zip(1.., steps).find_map(|(number, step)| {
            let why = step.generator.limited_because.as_ref()?;
            Some(if steps.len() > 1 { format!("step {number}: {why}") } else { why.clone() })
        });
        generator(whole, total, limited)
    }
}

/// One step with what it left.
struct Measured<'a> {
    step: &'a Step,
    record: &'a StepRecord,
    marks: &'a StepMarks,
    span: Span<'a>,
}

/// Spans added up.
#[derive(Default)]
struct Total {
    seconds: f64,
    answered: u64,
    received_bytes: u64,
    generator_cpu_seconds: f64,
    generator_wait: Option<Reading<Nanos>>,
    own_core: Option<Reading<CoreTime>>,
}

impl Total {
    fn add(&mut self, span: &Span<'_>) {
        self.seconds += span.seconds();
        self.answered += span.answered();
        self.received_bytes += span.growth(|mark| mark.totals.received_bytes);
        self.generator_cpu_seconds += span.generator_cpu_fraction().unwrap_or(0.0) * span.seconds();
        self.generator_wait = sum(self.generator_wait.take(), span.generator_wait());
        self.own_core = sum(self.own_core.take(), span.core(|mark| mark.own_core.clone()));
    }

    fn per_second(&self, count: u64) -> Option<f64> {
        (self.seconds > 0.0).then(|| count as f64 / self.seconds)
    }

    fn generator_cpu_fraction(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.generator_cpu_seconds / self.seconds)
    }

    fn core_wait_fraction(&self) -> Reading<f64> {
        known(&self.generator_wait).map(|wait| wait.seconds() / self.seconds)
    }

    fn core_steal_fraction(&self) -> Reading<f64> {
        known(&self.own_core).map(|core| core.steal_fraction().unwrap_or(0.0))
    }
}

fn sum<T: Add<Output = T>>(before: Option<Reading<T>>, part: Reading<T>) -> Option<Reading<T>> {
    Some(match before {
        None => part,
        Some(before) => before.zip(part).map(|(before, part)| before + part),
    })
}

fn known<T: Clone>(sum: &Option<Reading<T>>) -> Reading<T> {
    sum.clone().unwrap_or_else(|| Reading::unavailable("nothing was measured"))
}

fn figures(record: &StepRecord, total: &Total) -> Figures {
    let by_cause = Cause::ALL.into_iter().zip(record.errors).filter(|(_, count)| *count > 0);
    Figures {
        requests: record.answered,
        errors: record.errors_total(),
        errors_by_cause: by_cause.map(|(cause, count)| (cause.name(), count)).collect(),
        unfinished: record.unfinished,
        abandoned: record.abandoned,
        duration_seconds: total.seconds,
        requests_per_second: total.per_second(total.answered),
        bytes_per_second: total.per_second(total.received_bytes),
        response_time_seconds: record.response_time.summary(),
        time_to_first_byte_seconds: record.time_to_first_byte.summary(),
        time_to_first_byte_intended_seconds: record.time_to_first_byte_intended.summary(),
        connect_time_seconds: record.connect_time.summary(),
        send_lag_seconds: record.send_lag.summary(),
    }
}

fn generator(record: &StepRecord, total: &Total, limited_because: Option<String>) -> Generator {
    Generator {
        cpu_fraction: total.generator_cpu_fraction(),
        cpu_seconds_per_request: (total.answered > 0)
            .then(|| total.generator_cpu_seconds / total.answered as f64),
        core_wait_fraction: total.core_wait_fraction(),
        core_steal_fraction: total.core_steal_fraction(),
        limited: limited_because.is_some(),
        limited_because,
        send_lag_p99_seconds: record.send_lag.quantile_seconds(0.99),
    }
}

fn latencies(record: &StepRecord) -> [(&'static str, &Histogram); 5] {
    [
        ("connect_time", &record.connect_time),
        ("time_to_first_byte", &record.time_to_first_byte),
        ("time_to_first_byte_intended", &record.time_to_first_byte_intended),
        ("response_time", &record.response_time),
        ("send_lag", &record.send_lag),
    ]
}
