//! Periodic work: snapshots at the limits of steps, ticks ten times a second, and a progress report every second.

use sojourn_measure::{Histogram, Nanos, Summary, clock};

use crate::{
    clients::{Run, connection::Connection},
    http::{cause::Cause, connection::State},
    plan::StopRule,
    statistics::{
        checks::StepEvidence, measured_interval::MeasuredInterval, snapshot::Totals, timeline::TICK,
    },
};

const SECOND: Nanos = Nanos(1_000_000_000);
/// How long a server may take to close a connection after announcing that.
const LINGER_MAX: Nanos = Nanos(1_000_000_000);
/// If the server refuses every connection for this long, it counts as gone.
const REFUSED_MAX: Nanos = Nanos(1_000_000_000);
/// The most connections whose timeouts are checked per tick.
const EXPIRED_SCAN_MAX: usize = 2_000;

/// The progress of a run, reported once a second.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The completed share of the schedule.
    pub fraction: f64,
    /// The step whose measured part is running.
    pub step: Option<usize>,
    /// Good responses in the last second.
    pub requests_per_second: f64,
    /// Failed requests in the last second.
    pub errors_per_second: f64,
    pub in_flight: u64,
    /// The generator's CPU time over wall time in the last second.
    pub generator_cpu_fraction: f64,
    /// From the intended start to the first byte, for responses of the last second.
    pub time_to_first_byte: Summary,
}

impl Run<'_> {
    pub(crate) fn next_snapshot(&self) -> Nanos {
        if self.draining.is_some() {
            return Nanos::MAX;
        }
        let next = self.measurement.next_snapshot(&self.settings.schedule);
        next.map_or(Nanos::MAX, |time| self.settings.origin + time)
    }

    /// Takes due snapshots; at the end of a step that exceeds the server's capacity, returns why the run should stop.
    pub(crate) fn take_snapshots(&mut self, now: Nanos) -> Option<String> {
        while self.next_snapshot() <= now {
            let index = self.measurement.steps.iter().position(|snapshots| snapshots.end.is_none())?;
            let snapshots = &mut self.measurement.steps[index];
            if snapshots.from.is_none() {
                snapshots.from = Some(self.measurement.observer.snapshot(&mut self.recorder, Some(index)));
                self.table.begin_step();
            } else if snapshots.middle.is_none() {
                snapshots.middle = Some(self.measurement.observer.light_snapshot(&self.recorder));
            } else {
                snapshots.end = Some(self.measurement.observer.snapshot(&mut self.recorder, None));
                snapshots.rates = self.settings.think.conforming_bits_per_second().map(|least| {
                    let seconds = self.settings.schedule.steps()[index].measured.seconds();
                    self.table.rates(least, seconds)
                });
                if let Some(failing) = self.failing(index, now) {
                    return Some(failing);
                }
            }
        }
        None
    }

    /// Why the step that has just ended exceeds the server's capacity, if the run must stop then.
    fn failing(&self, index: usize, now: Nanos) -> Option<String> {
        if self.settings.stop != StopRule::Failing {
            return None;
        }
        let target = self.settings.limits.target_p95.unwrap_or(Nanos::MAX);
        let unsent = self.table.clients.iter().filter_map(|(_, client)| client.pending);
        let sent = self.table.connections.iter().flat_map(|(_, connection)| connection.under_way());
        let waiting = unsent
            .chain(sent.chain(self.shared.under_way()).map(|exchange| exchange.pending))
            .filter(|pending| pending.step == Some(index) && pending.acted > Nanos::ZERO);
        let (record, snapshots) = (&self.recorder.steps[index], &self.measurement.steps[index]);
        let span = MeasuredInterval::between(snapshots.from.as_ref()?, snapshots.end.as_ref()?);
        let evidence = StepEvidence {
            offered_requests_per_second: self.settings.schedule.steps()[index].offered_requests_per_second,
            seconds: span.seconds(),
            answered: span.growth(|snapshot| snapshot.totals.answered),
            requests: record.answered,
            late: record.time_to_first_byte_intended.count_above(target),
            overdue: waiting.filter(|pending| now - pending.intended > target).count() as u64,
            errors: record.errors.total(),
            // A limit of the generator is only known after the run; it does not make the load higher, either.
            generator_limited: false,
        };
        evidence.limit().map(|limit| format!("step {}: {}", index + 1, evidence.describe(limit)))
    }

    /// Runs ten times a second; returns why the server counts as gone, if it does.
    pub(crate) fn tick(&mut self, now: Nanos, ticker: &mut Ticker<'_>) -> Option<String> {
        let p95 = self.recorder.recent.as_mut().and_then(|recent| {
            let p95 = recent.quantile_seconds(0.95);
            ticker.second.merge(recent);
            recent.reset();
            p95
        });
        let step = self.settings.step_of(now);
        let with_plan = step.map(|index| (index, &self.settings.schedule.steps()[index]));
        self.measurement.observer.tick(&mut self.recorder, with_plan, p95);
        if let (Some(intervals), Some((index, step))) = (&mut self.measurement.intervals, with_plan) {
            intervals.tick(
                now - self.settings.origin,
                index,
                step.measured_from(),
                &self.recorder.steps[index],
            );
        }
        ticker.advance(now, self.fraction(now), step, &self.recorder.totals);
        self.expire(now);
        if let Some(pid) = self.measurement.observer.ended_process() {
            return Some(format!("the observed process {pid} ended"));
        }
        let refused = self.opener.refused_since.is_some_and(|since| now - since > REFUSED_MAX);
        refused.then(|| "the server refuses every connection".to_owned())
    }

    /// Ends connections whose timeouts have passed. Each tick checks some of them, so twenty thousand per second;
    /// checking all at once would delay due requests.
    fn expire(&mut self, now: Nanos) {
        let limits = self.settings.limits;
        let late = |connection: &Connection| match connection.http.state {
            State::Connecting if now - connection.http.opened > limits.connect_timeout => {
                Some(Cause::ConnectTimeout)
            }
            State::Handshaking if connection.handshaking_for(now) > limits.connect_timeout => {
                Some(Cause::HandshakeTimeout)
            }
            State::Sending | State::Receiving if now - connection.exchange.sent > limits.response_timeout => {
                Some(match (connection.http.state, connection.exchange.first_byte) {
                    (_, Some(_)) => Cause::TransferTimeout,
                    (State::Sending, None) => Cause::SendTimeout,
                    _ => Cause::ResponseTimeout,
                })
            }
            State::Lingering if now - connection.exchange.sent > LINGER_MAX => Some(Cause::ClosedEarly),
            _ => None,
        };
        self.expire_shared(now);
        let keys = self.table.connections.capacity();
        for _ in 0..keys.min(EXPIRED_SCAN_MAX) {
            self.table.scan_from = (self.table.scan_from + 1) % keys;
            let key = self.table.scan_from;
            if let Some(cause) = self.table.connections.get(key).and_then(late) {
                self.fail(key, cause, now);
            }
        }
    }
}

/// The schedule of ticks and progress reports.
pub(crate) struct Ticker<'p> {
    pub(crate) next_tick: Nanos,
    next_report: Nanos,
    report: Option<&'p mut dyn FnMut(&Progress)>,
    second: Histogram,
    before: Totals,
    generator_cpu_before: Nanos,
}

impl<'p> Ticker<'p> {
    pub(crate) fn new(origin: Nanos, report: Option<&'p mut dyn FnMut(&Progress)>) -> Ticker<'p> {
        let (next_tick, next_report) = (origin + TICK, origin + SECOND);
        let (second, before) = (Histogram::coarse(), Totals::default());
        Ticker { next_tick, next_report, report, second, before, generator_cpu_before: clock::thread_cpu() }
    }

    fn advance(&mut self, now: Nanos, fraction: f64, step: Option<usize>, totals: &Totals) {
        // Missed ticks are skipped.
        while self.next_tick <= now {
            self.next_tick = self.next_tick + TICK;
        }
        if now < self.next_report {
            return;
        }
        let seconds = (now - (self.next_report - SECOND)).seconds();
        let generator_cpu = clock::thread_cpu() - totals.idle;
        if let Some(report) = &mut self.report {
            report(&Progress {
                fraction,
                step,
                requests_per_second: (totals.answered - self.before.answered) as f64 / seconds,
                errors_per_second: (totals.errors - self.before.errors) as f64 / seconds,
                in_flight: totals.in_flight.count,
                generator_cpu_fraction: (generator_cpu - self.generator_cpu_before).seconds() / seconds,
                time_to_first_byte: self.second.summary(),
            });
        }
        self.second.reset();
        self.before = *totals;
        self.generator_cpu_before = generator_cpu;
        self.next_report = now + SECOND;
    }
}
