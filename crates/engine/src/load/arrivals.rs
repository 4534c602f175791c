//! Options of `load` for arrivals: open or closed loop, rates, think times, warm-up and duration.

use anyhow::{bail, ensure};
use clap::{Args, ValueEnum};
use sojourn_load::{
    ArrivalProcess, Arrivals, Distribution, Schedule, Segment, Shape, StopRule, Think, duration, parse_rate,
    parse_schedule,
};
use sojourn_measure::Nanos;

const ARRIVALS: &str = "Arrivals";
const THINK: &str = "Think times";
const STOP: &str = "Duration";

/// The time limit of a run that ends after a number of requests or sessions.
const UNTIL_DONE: Nanos = Nanos(24 * 3_600_000_000_000);

#[derive(Args)]
#[command(group = clap::ArgGroup::new("who").required(true).args(["clients", "rate", "schedule"]))]
pub struct ArrivalOptions {
    /// Closed loop: this many clients, each requesting again after the response and the think time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = ARRIVALS)]
    clients: Option<u32>,
    /// Open loop: arrivals per second, whatever the server does; 0.5, 100/s, 30/min.
    #[arg(long, value_name = "RATE", value_parser = positive_rate, help_heading = ARRIVALS)]
    rate: Option<f64>,
    /// Open loop with a changing rate: '100/s for 10s, ramp to 1000/s in 30s'. Each part is a step.
    #[arg(long, value_name = "PARTS", help_heading = ARRIVALS, conflicts_with = "duration")]
    schedule: Option<String>,
    /// The distribution of interarrival times in an open loop.
    #[arg(long, default_value = "poisson", value_name = "constant|poisson|uniform", help_heading = ARRIVALS)]
    arrivals: ArrivalName,
    /// The most visits of an open loop in progress; arrivals above the limit are skipped and counted.
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = ARRIVALS)]
    in_flight_max: u32,
    /// The time within which closed-loop clients start [default: half of the warm-up].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = ARRIVALS)]
    pub ramp: Option<Nanos>,
    /// Mean think time from a response to the client's next request [default: 0s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = THINK)]
    think_time: Option<Nanos>,
    /// Pacing: mean time from one request to the client's next, or until the response if that takes longer.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "think_time", help_heading = THINK)]
    pacing: Option<Nanos>,
    /// The distribution of think times or pacing.
    #[arg(long, default_value = "exponential", value_name = "constant|exponential|uniform|lognormal", help_heading = THINK)]
    think_law: ThinkLawName,
    /// The coefficient of variation of log-normal times.
    #[arg(long, default_value_t = 1.0, value_name = "CV", help_heading = THINK)]
    think_variation: f64,
    /// Time to measure [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = STOP)]
    duration: Option<Nanos>,
    /// Warm-up: time to run before measuring [default: 1s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = STOP)]
    warm_up: Option<Nanos>,
    /// Stop after this many requests.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = STOP)]
    requests: Option<u64>,
    /// Stop after this many visits (sessions, walks).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "requests", help_heading = STOP)]
    sessions: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ArrivalName {
    Constant,
    Poisson,
    Uniform,
}

#[derive(Clone, Copy, ValueEnum)]
enum ThinkLawName {
    Constant,
    Exponential,
    Uniform,
    Lognormal,
}

/// Parses a rate above 0; returns events per second.
pub fn positive_rate(text: &str) -> Result<f64, String> {
    let rate = parse_rate(text).map_err(|error| error.to_string())?;
    if rate > 0.0 { Ok(rate) } else { Err("the rate must be above 0".into()) }
}

/// The arrivals of a run, with warm-up and end.
pub struct ResolvedArrivals {
    pub arrivals: Arrivals<'static>,
    pub schedule: Schedule,
    pub stop: StopRule,
}

impl ArrivalOptions {
    /// The arrivals that these options describe, with the default warm-up and duration of a preset.
    pub fn resolve(&self, warm_up: Nanos, duration: Nanos) -> anyhow::Result<ResolvedArrivals> {
        let counted = self.requests.is_some() || self.sessions.is_some();
        let until_done = counted && self.duration.is_none();
        // A given number of requests is measured completely, unless a warm-up is given.
        let settle = self.warm_up.unwrap_or(if counted { Nanos::ZERO } else { warm_up });
        let measured = self.duration.unwrap_or(if until_done { UNTIL_DONE } else { duration });
        let offered = self.rate;
        let (arrivals, schedule) = match (self.clients, &self.schedule) {
            (Some(clients), _) => (Arrivals::Closed { clients }, Schedule::single(settle, measured, None)),
            (None, Some(text)) => {
                let parts = parse_schedule(text)?;
                let schedule = Schedule::segments(&parts, settle);
                let first = Segment { from: parts[0].from, to: parts[0].from, length: settle };
                let before = (settle > Nanos::ZERO).then_some(first);
                (self.open(before.into_iter().chain(parts).collect()), schedule)
            }
            (None, None) => {
                let rate = offered.unwrap_or_default();
                let segment = Segment { from: rate, to: rate, length: settle + measured };
                (self.open(vec![segment]), Schedule::single(settle, measured, offered))
            }
        };
        ensure!(schedule.end() > settle, "the measured time must be above 0 s");
        let stop = match (self.requests, self.sessions) {
            (Some(requests), _) => StopRule::Requests(requests),
            (None, Some(sessions)) => StopRule::Visits(sessions),
            (None, None) => StopRule::ScheduleEnd,
        };
        Ok(ResolvedArrivals { arrivals, schedule, stop })
    }

    /// The distribution of think times around the mean.
    pub fn think_shape(&self) -> anyhow::Result<Shape> {
        Ok(match self.think_law {
            ThinkLawName::Constant => Shape::Constant,
            ThinkLawName::Exponential => Shape::Exponential,
            ThinkLawName::Uniform => Shape::Uniform,
            ThinkLawName::Lognormal if (0.01..=100.0).contains(&self.think_variation) => {
                Shape::LogNormal { variation: self.think_variation }
            }
            ThinkLawName::Lognormal => bail!("--think-variation must lie between 0.01 and 100"),
        })
    }

    /// The think times, if any.
    pub fn think(&self) -> anyhow::Result<Option<Think>> {
        let shape = self.think_shape()?;
        let distribution = |mean| Distribution { mean, shape };
        Ok(match (self.think_time, self.pacing) {
            (Some(mean), _) => Some(Think::AfterAnswer(distribution(mean))),
            (None, Some(mean)) => Some(Think::FromStart(distribution(mean))),
            (None, None) => None,
        })
    }

    /// The number of clients in a closed loop.
    pub fn clients(&self) -> Option<u32> {
        self.clients
    }

    fn open(&self, segments: Vec<Segment>) -> Arrivals<'static> {
        let process = match self.arrivals {
            ArrivalName::Constant => ArrivalProcess::Constant,
            ArrivalName::Poisson => ArrivalProcess::Poisson,
            ArrivalName::Uniform => ArrivalProcess::Uniform,
        };
        Arrivals::Open { segments, process, under_way_max: self.in_flight_max }
    }
}
