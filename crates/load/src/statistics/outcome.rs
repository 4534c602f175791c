//! The outcome of a run, and the report made of it.

use std::{borrow::Cow, collections::BTreeMap, io, iter, time::SystemTime};

use sojourn_measure::{
    Histogram, Nanos, Reading,
    interval_log::{self, Interval},
    priority,
};

use crate::{
    plan::{
        Limits, Think,
        mix::MixCheck,
        scenario::user::KeptUser,
        schedule::{Schedule, Step},
    },
    statistics::{
        checks::{self, StepEvidence},
        each_request::EachRequest,
        generator_limit::GeneratorEvidence,
        interval_totals::IntervalTotals,
        intervals::{Intervals, LOG_COMMENT},
        measured_interval::MeasuredInterval,
        recorder::Recorder,
        report::{
            Censored, Figures, Generator, Little, LittleInFlight, NamedFigures, Rated, Report, SizeFigures,
            StatusFigures, SteadyEvidence, StepReport, UsersReport,
        },
        snapshot::{ConformingClients, StepSnapshots},
        step::{NamedRecord, SIZE_CLASS_BYTES, StepRecord},
        timeline::Timeline,
        windows::Windows,
    },
};

/// A request sent this much later than its intended start counts as late.
const LATE: Nanos = Nanos(1_000_000);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The schedule, or the last session, has ended.
    Completed,
    /// The server failed a step, and the plan says to stop then.
    Failing(String),
    Interrupted,
    ServerGone(String),
}

/// Everything that a run has recorded.
pub struct Outcome {
    pub(crate) stopped: Stopped,
    pub(crate) started_at: SystemTime,
    pub(crate) closed_clients: Option<u32>,
    pub(crate) mean_think: Option<Nanos>,
    pub(crate) mix_check: Option<MixCheck>,
    pub(crate) think: Think,
    pub(crate) origin: Nanos,
    pub(crate) schedule: Schedule,
    /// Names under which results are reported, if requests have names.
    pub(crate) names: Vec<String>,
    /// The load whose SPECweb99 file set was requested, if one was.
    pub(crate) file_set_load: Option<u32>,
    pub(crate) users: Option<UsersReport>,
    /// Logged-in users for the next run.
    pub kept_users: Vec<KeptUser>,
    pub(crate) recorder: Recorder,
    pub(crate) snapshots: Vec<StepSnapshots>,
    pub(crate) timeline: Option<Timeline>,
    pub(crate) windows: Option<Windows>,
    /// Available if the kernel provided timestamps.
    pub(crate) timestamps: Reading<()>,
    pub(crate) intervals: Option<Intervals>,
    pub(crate) timer_slack: Nanos,
    pub(crate) limits: Limits,
}

impl Outcome {
    pub fn report(&self) -> Report {
        let steps: Vec<StepReport> = self.measured().map(|measured| self.step(&measured)).collect();
        let mut whole = StepRecord::default();
        let mut total = IntervalTotals::default();
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
            started_unix_seconds: unix_seconds(self.started_at),
            warnings: self.warnings(&steps, &whole),
            users: self.users.clone(),
            mix: self.mix_check.clone(),
            figures: self.figures(&whole, &total),
            generator: self.generator(&whole, &total, &steps),
            steps,
        }
    }

    /// Writes every step's histograms as one HDR interval log with the kind of latency as the tag. The rows of several
    /// runs are enough to compute all figures of a step, by status and size too.
    pub fn write_histograms(&self, output: &mut impl io::Write) -> io::Result<()> {
        let tagged: Vec<_> =
            self.measured().map(|measured| (tagged(measured.record, &self.names), measured)).collect();
        let rows = tagged.iter().flat_map(|(histograms, measured)| {
            histograms.iter().map(|(tag, histogram)| Interval {
                tag,
                start: measured.step.measured_from(),
                length: Nanos::from_seconds(measured.span.seconds()),
                histogram: histogram.as_ref(),
            })
        });
        interval_log::write(output, self.started_at, LOG_COMMENT, rows)
    }

    /// Writes the latencies per interval, if the plan asks for intervals.
    pub fn write_intervals(&self, output: &mut impl io::Write) -> io::Result<()> {
        self.intervals.as_ref().map_or(Ok(()), |intervals| intervals.write(output, self.started_at))
    }

    /// The timeline, if the plan asks for one.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }

    /// Each request, if the plan asks for them and there were not too many.
    pub fn requests(&self) -> Option<&EachRequest> {
        self.recorder.requests.as_ref().filter(|requests| !requests.is_empty())
    }

    /// The steps that have a start and an end.
    fn measured(&self) -> impl Iterator<Item = Measured<'_>> {
        let steps = self.schedule.steps().iter().zip(&self.recorder.steps).zip(&self.snapshots);
        steps.enumerate().filter_map(|(index, ((step, record), snapshots))| {
            let span = MeasuredInterval::between(snapshots.from.as_ref()?, snapshots.end.as_ref()?);
            Some(Measured { index, step, record, snapshots, span })
        })
    }

    fn warnings(&self, steps: &[StepReport], whole: &StepRecord) -> Vec<String> {
        let mut warnings = checks::warnings(steps, whole.skipped, self.mix_check.as_ref());
        let shared = self.users.as_ref().and_then(|users| Some((users.users, users.rows?)));
        if let Some((users, rows)) = shared.filter(|(users, rows)| users > rows) {
            warnings.push(format!("{users} users shared the {rows} rows of the users file"));
        }
        if let Some(load) = self.file_set_load
            && let Some((_, missing)) = whole.by_status().iter().find(|(status, _)| *status == 404)
        {
            warnings.push(format!(
                "{} responses were 404: does the site have all files of this load? sojourn fileset web99 --load {load} \
                 makes them",
                missing.count()
            ));
        }
        warnings
    }

    fn step(&self, measured: &Measured<'_>) -> StepReport {
        let Measured { index, step, record, snapshots, span } = measured;
        let mut total = IntervalTotals::default();
        total.add(span);
        let figures = self.figures(record, &total);
        let evidence = SteadyEvidence::of(snapshots);
        let little = self.closed_clients.zip(self.mean_think).zip(figures.requests_per_second);
        let little = little
            .zip(figures.response_time_seconds.mean)
            .map(|(((clients, think), rate), response)| Little::of(clients, rate, response, think.seconds()));
        let server = span.server_use();
        let saturated = server.as_ref().is_some_and(checks::is_saturated);
        let generator = self.generator_in(record, &total, self.reasons(measured, &total, saturated));
        let evidence_of_limit = StepEvidence {
            offered_requests_per_second: step.offered_requests_per_second,
            seconds: span.seconds(),
            answered: span.growth(|snapshot| snapshot.totals.answered),
            requests: figures.requests,
            late: self
                .limits
                .target_p95
                .map_or(0, |target| record.time_to_first_byte_intended.count_above(target)),
            overdue: figures.unfinished,
            errors: figures.errors,
            generator_limited: generator.limited && !saturated,
        };
        StepReport {
            limit: evidence_of_limit.limit(),
            server_saturated: saturated,
            start_seconds: (span.start() - self.origin).seconds(),
            offered_requests_per_second: step.offered_requests_per_second,
            ramp: step.ramp,
            clients: self.closed_clients,
            sessions_started: span.growth(|snapshot| snapshot.totals.sessions_started),
            sessions_completed: span.growth(|snapshot| snapshot.totals.sessions_completed),
            sessions_failed: span.growth(|snapshot| snapshot.totals.sessions_failed),
            rated: self.rated(snapshots),
            connections_opened: span.growth(|snapshot| snapshot.totals.connections_opened),
            reconnects: span.growth(|snapshot| snapshot.totals.reconnects),
            connections_open_mean: span.connections_open_mean(),
            in_flight_mean: span.in_flight_mean(),
            steady: evidence.as_ref().is_some_and(|evidence| evidence.is_steady(span.seconds())),
            steady_evidence: evidence,
            little,
            little_in_flight: span.in_flight_mean().zip(figures.requests_per_second).and_then(
                |(mean, rate)| Some(LittleInFlight::of(mean, rate, figures.response_time_sent_seconds.mean?)),
            ),
            response_bytes_mean: (record.answered > 0)
                .then(|| record.body_bytes as f64 / record.answered as f64),
            generator,
            server,
            tcp: span.tcp_trouble(),
            undisturbed: match &self.windows {
                Some(windows) => windows.report(*index),
                None => Reading::unavailable("no process of the server is observed (--observe-pid)"),
            },
            figures,
        }
    }

    fn rated(&self, snapshots: &StepSnapshots) -> Option<Rated> {
        let Think::Rated { bits_per_second } = self.think else { return None };
        let ConformingClients { clients, conforming } = snapshots.rates?;
        let conforming_bits_per_second = self.think.conforming_bits_per_second()?;
        Some(Rated { bits_per_second, conforming_bits_per_second, clients, conforming })
    }

    fn reasons(
        &self,
        measured: &Measured<'_>,
        total: &IntervalTotals,
        server_saturated: bool,
    ) -> Vec<String> {
        let Measured { step, record, span, .. } = measured;
        let evidence = GeneratorEvidence {
            cpu_fraction: total.generator_cpu_fraction().unwrap_or(0.0),
            send_lag_p99_seconds: record.send_lag.quantile_seconds(0.99),
            send_lag_p99_max: self.limits.send_lag_p99,
            begun_late: span.start() - (self.origin + step.measured_from()),
            measured: step.measured,
            core_wait_fraction: total.core_wait_fraction().value().copied(),
            core_steal_fraction: total.core_steal_fraction().value().copied(),
            server_saturated,
            closed: self.closed_clients.is_some(),
            errors: &record.errors,
        };
        evidence.reasons()
    }

    /// A run is limited by the generator if one of its steps is.
    fn generator(&self, whole: &StepRecord, total: &IntervalTotals, steps: &[StepReport]) -> Generator {
        let numbered = |(number, step): (usize, &StepReport)| {
            let place = if steps.len() > 1 { format!("step {number}: ") } else { String::new() };
            step.generator.reasons.iter().map(|why| format!("{place}{why}")).collect::<Vec<_>>()
        };
        self.generator_in(whole, total, iter::zip(1.., steps).flat_map(numbered).collect())
    }

    fn generator_in(&self, record: &StepRecord, total: &IntervalTotals, reasons: Vec<String>) -> Generator {
        Generator {
            cpu_fraction: total.generator_cpu_fraction(),
            cpu_seconds_per_request: (total.answered > 0)
                .then(|| total.generator_cpu_seconds / total.answered as f64),
            core_wait_fraction: total.core_wait_fraction(),
            core_steal_fraction: total.core_steal_fraction(),
            limited: !reasons.is_empty(),
            limited_because: (!reasons.is_empty()).then(|| reasons.join("; ")),
            reasons,
            late_sends: record.send_lag.count_above(LATE),
            send_lag_p99_seconds: record.send_lag.quantile_seconds(0.99),
            send_lag_limit_seconds: self.limits.send_lag_p99.seconds(),
            timer_slack_seconds: self.timer_slack.seconds(),
            real_time: priority::is_real_time(),
            iterations_per_second: total.per_second(total.iterations),
        }
    }

    /// Includes names without requests: their zeros are results.
    fn by_name(&self, record: &StepRecord, seconds: f64) -> Vec<NamedFigures> {
        let none = NamedRecord::default();
        let each = self.names.iter().enumerate().map(|(place, name)| {
            let named = record.by_name.get(place).unwrap_or(&none);
            let errors = named.errors.occurred();
            NamedFigures {
                name: name.clone(),
                requests: named.answered,
                requests_per_second: (seconds > 0.0).then(|| named.answered as f64 / seconds),
                errors: named.errors.total(),
                errors_by_cause: errors.map(|(cause, count, _)| (cause.name(), count)).collect(),
                first_failure: named.first_failure.clone(),
                redirects: named.redirects,
                unfinished: named.unfinished,
                abandoned: named.abandoned,
                response_bytes_mean: (named.answered > 0)
                    .then(|| named.body_bytes as f64 / named.answered as f64),
                response_time_seconds: named.response_time.summary(),
                time_to_first_byte_intended_seconds: named.time_to_first_byte_intended.summary(),
                server_timing_seconds: named
                    .server_timing
                    .iter()
                    .map(|(metric, durations)| (metric.clone(), durations.summary()))
                    .collect(),
            }
        });
        each.collect()
    }

    fn figures(&self, record: &StepRecord, total: &IntervalTotals) -> Figures {
        let errors = || record.errors.occurred();
        Figures {
            requests: record.answered,
            errors: record.errors.total(),
            errors_by_cause: errors().map(|(cause, count, _)| (cause.name(), count)).collect(),
            error_time_seconds: errors().map(|(cause, _, times)| (cause.name(), times.summary())).collect(),
            censored: censored(record),
            skipped: record.skipped,
            unfinished: record.unfinished,
            abandoned: record.abandoned,
            abandoned_fraction: abandoned_fraction(record),
            redirects: record.redirects,
            duration_seconds: total.seconds,
            requests_per_second: total.per_second(total.answered),
            bytes_per_second: total.per_second(total.received_bytes),
            response_time_seconds: record.response_time().summary(),
            response_time_sent_seconds: record.response_time_sent.summary(),
            time_to_first_byte_seconds: record.time_to_first_byte.summary(),
            time_to_first_byte_intended_seconds: record.time_to_first_byte_intended.summary(),
            transfer_time_seconds: record.transfer_time.summary(),
            connect_time_seconds: record.connect_time.summary(),
            handshake_time_seconds: record.handshake_time.summary(),
            handshakes_resumed: record.handshakes_resumed,
            send_lag_seconds: record.send_lag.summary(),
            receive_lag_seconds: self.timestamps.clone().map(|()| record.receive_lag.summary()),
            by_status: by_status(record),
            by_size: by_size(record),
            by_name: self.by_name(record, total.seconds),
        }
    }
}

/// The share of the requests due in the span that were abandoned.
fn abandoned_fraction(record: &StepRecord) -> Option<f64> {
    let all = record.answered + record.errors.total() + record.unfinished + record.abandoned;
    (all > 0).then(|| record.abandoned as f64 / all as f64)
}

/// One step with its records.
struct Measured<'a> {
    index: usize,
    step: &'a Step,
    record: &'a StepRecord,
    snapshots: &'a StepSnapshots,
    span: MeasuredInterval<'a>,
}

fn censored(record: &StepRecord) -> Censored {
    let timeouts = record.errors.occurred().filter(|(cause, ..)| cause.is_timeout());
    let timeouts = timeouts.map(|(_, count, _)| count).sum();
    let all = record.answered + record.errors.total() + record.unfinished;
    let fraction = (all > 0).then(|| (timeouts + record.unfinished) as f64 / all as f64);
    Censored { timeouts, unfinished: record.unfinished, fraction }
}

fn by_status(record: &StepRecord) -> BTreeMap<u16, StatusFigures> {
    let figures =
        |times: Histogram| StatusFigures { responses: times.count(), response_time_seconds: times.summary() };
    record.by_status().into_iter().map(|(status, times)| (status, figures(times))).collect()
}

/// Empty classes are left out.
fn by_size(record: &StepRecord) -> Vec<SizeFigures> {
    let bytes_from = iter::once(0).chain(SIZE_CLASS_BYTES);
    let bytes_below = SIZE_CLASS_BYTES.into_iter().map(Some).chain([None]);
    let classes = iter::zip(bytes_from, bytes_below).zip(0..).map(|((bytes_from, bytes_below), class)| {
        let times = record.of_size_class(class);
        SizeFigures {
            bytes_from,
            bytes_below,
            requests: times.count(),
            response_time_seconds: times.summary(),
        }
    });
    classes.filter(|class| class.requests > 0).collect()
}

fn tagged<'a>(record: &'a StepRecord, names: &[String]) -> Vec<(String, Cow<'a, Histogram>)> {
    let whole = [
        ("connect_time", &record.connect_time),
        ("handshake_time", &record.handshake_time),
        ("time_to_first_byte", &record.time_to_first_byte),
        ("time_to_first_byte_intended", &record.time_to_first_byte_intended),
        ("transfer_time", &record.transfer_time),
        ("response_time_sent", &record.response_time_sent),
        ("send_lag", &record.send_lag),
        ("receive_lag", &record.receive_lag),
    ];
    let mut all = vec![("response_time".to_owned(), Cow::Owned(record.response_time()))];
    all.extend(whole.map(|(tag, histogram)| (tag.to_owned(), Cow::Borrowed(histogram))));
    all.extend(record.cells().map(|(tag, histogram)| (tag, Cow::Borrowed(histogram))));
    let failures = record.errors.occurred();
    all.extend(
        failures.map(|(cause, _, times)| (format!("error_time_{}", cause.name()), Cow::Borrowed(times))),
    );
    for (name, named) in iter::zip(names, &record.by_name) {
        let tag = |kind: &str| format!("{kind}:{}", tag_of(name));
        all.push((tag("response_time"), Cow::Borrowed(&named.response_time)));
        all.push((tag("time_to_first_byte_intended"), Cow::Borrowed(&named.time_to_first_byte_intended)));
        let timings = named.server_timing.iter();
        all.extend(timings.map(|(metric, durations)| {
            (tag(&format!("server_timing_{}", tag_of(metric))), Cow::Borrowed(durations))
        }));
    }
    all
}

/// A name as valid in a log's tag, without blanks and commas: percent-encoded.
fn tag_of(name: &str) -> String {
    let mut tag = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'%' | b',' | b' ' => tag += &format!("%{byte:02X}"),
            _ if byte.is_ascii_graphic() => tag.push(char::from(byte)),
            _ => tag += &format!("%{byte:02X}"),
        }
    }
    tag
}

fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
