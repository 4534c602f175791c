//! `sojourn-engine load`: virtual clients, in a closed or an open loop.

use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use sojourn_load::{
    Connections, Count, Distribution, Plan, Requests, Target, Think, Transport, Version, webstone,
};
use sojourn_measure::Nanos;
use sojourn_workload::web99::BITS_PER_SECOND;

mod arrivals;
pub mod generator;
mod requests;
pub mod result;
mod start;
pub mod streams;
mod text;

use arrivals::{ArrivalOptions, ResolvedArrivals};
use generator::GeneratorOptions;
use requests::{Preset, RequestOptions};
use result::FigureSet;

/// Load a server: a closed loop of clients, or an open loop of arrivals at a rate.
///
/// Arrivals, requests, think times, connections and the stop rule are independent: any goes with any. The generator is
/// one thread; give it a core of its own (--core). To repeat the visits of an access log use `replay`.
#[derive(Args)]
#[command(
    after_help = "\
Example: 64 clients on one page of a server on this machine
  sojourn load http://127.0.0.1:8080/index.html --clients 64 --duration 10s --probe",
    after_long_help = "\
Examples

  64 clients on one page, generator on core 1, server (process 4711) on core 0
    sojourn load http://127.0.0.1:8080/index.html --clients 64 --duration 10s \\
        --core 1 --observe-core 0 --observe-pid 4711 --format json

  500 arrivals a second; a rate that rises
    sojourn load http://127.0.0.1:8080/ --rate 500
    sojourn load http://127.0.0.1:8080/ --schedule '100/s for 10s, ramp to 1000/s in 30s, 1000/s for 30s'

  sessions of httperf, two starting each second, 1000 in all; 50 visitors on a random walk
    sojourn load http://127.0.0.1:8080 --session-log sessions.log --rate 2 --sessions 1000
    sojourn load http://127.0.0.1:8080 --walk support.toml --clients 50 --think-time 5s

  users who log in, from a file of names and passwords; a page that redirects
    sojourn load http://127.0.0.1:8080 --scenario shop.toml --clients 50 --warm-up 0s --threshold 'login p95<300ms'
    sojourn load http://127.0.0.1:8080/old --follow-redirects 5 --rate 100

  posting; slow readers; WebStone by its rules
    sojourn load http://127.0.0.1:8080/cart --clients 8 --method POST --body cart.json -H 'Content-Type: application/json'
    sojourn load http://127.0.0.1:8080/big --clients 200 --read-rate 400kbit/s --think-time 1s
    sojourn load http://127.0.0.1:8080 --preset webstone --clients 20

  viewers of films; their options: sojourn load rtsp:// --help
    sojourn load rtsp://127.0.0.1:8554/film.mp4 --clients 100

Results

`by_name` has the results of a scenario's requests by their names. `requests` counts good responses to requests due in the measured time. `errors` counts failures, by cause. `unfinished` \
requests had no response at the end. `skipped` arrivals exceeded --in-flight-max. Latencies are those of good responses: \
`response_time` from the intended start, `response_time_sent` from the send. The difference is what coordinated omission \
hides. Where `generator.limited` is true, the generator was the limit and not the server. docs/load.md defines every figure.

Exit code: 0 complete, 1 not complete (interrupted, or the server went away), 2 could not run."
)]
pub struct Options {
    /// The URL to request: http[s]://HOST[:PORT][/PATH]
    url: String,
    #[command(flatten)]
    arrivals: ArrivalOptions,
    #[command(flatten)]
    requests: RequestOptions,
    #[command(flatten)]
    generator: GeneratorOptions,
}

struct Defaults {
    version: Version,
    connections: Connections,
    think: Think,
    warm_up: Nanos,
    duration: Nanos,
    shows: FigureSet,
}

/// In SPECweb99, 70 % of requests use connections with ten requests on average.
const WEB99_CONNECTIONS: Count = Count::Mixed { many: 0.7, mean: 10.0 };
const SECOND: u64 = 1_000_000_000;

impl Defaults {
    fn of(preset: Option<Preset>) -> Defaults {
        let plain = Defaults {
            version: Version::Http11,
            connections: Connections::KeepAlive,
            think: Think::AfterAnswer(Distribution::NONE),
            warm_up: Nanos(SECOND),
            duration: Nanos(10 * SECOND),
            shows: FigureSet::Ours,
        };
        match preset {
            None => plain,
            Some(Preset::Webstone) => Defaults {
                version: Version::Http10,
                connections: Connections::Close,
                duration: Nanos(webstone::RUN_SECONDS_MIN * SECOND),
                shows: FigureSet::WebStone,
                ..plain
            },
            // The warm-up and measured time of SPECweb99.
            Some(Preset::Web99) => Defaults {
                connections: Connections::Requests(WEB99_CONNECTIONS),
                think: Think::Rated { bits_per_second: BITS_PER_SECOND },
                warm_up: Nanos(1200 * SECOND),
                duration: Nanos(1200 * SECOND),
                ..plain
            },
        }
    }
}

/// Adds the schemas of what loads and replays print.
#[cfg(debug_assertions)]
pub fn add_schemas(generator: &mut schemars::SchemaGenerator) {
    generator.subschema_for::<result::Printed<'static>>();
    generator.subschema_for::<result::ProgressLine<'static>>();
    generator.subschema_for::<streams::Printed<'static>>();
    generator.subschema_for::<streams::ProgressLine<'static>>();
}

pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let Options { url, arrivals: who, requests: what, generator } = options;
    let defaults = Defaults::of(what.preset);
    let target = Target::resolve(url)?;
    let (connections, version) =
        (generator.connections(defaults.connections), generator.version(defaults.version));
    let (catalogue, requests) =
        what.requests(&target, version, connections, who.clients(), who.think_shape()?)?;
    catalogue.check()?;
    let ResolvedArrivals { arrivals, mut schedule, stop } =
        who.resolve(defaults.warm_up, defaults.duration)?;
    if let Requests::Scenario(scenario) = &requests {
        ensure!(!generator.verifies(), "--verify: what answers contain is checked by the scenario");
        // Arrivals are iterations.
        schedule.scale_offered(scenario.mean_requests());
    }
    let tls = generator.tls(&target)?;
    generator.run(
        "load",
        Plan {
            target,
            arrivals,
            requests,
            think: who.think()?.unwrap_or(defaults.think),
            catalogue: generator.verified(catalogue),
            connections,
            tls,
            transport: Transport { pipeline: what.pipeline(), ramp: who.ramp, ..generator.transport() },
            schedule,
            stop,
            limits: generator.limits(),
            waiting: generator.waiting(),
            observe: generator.observe(),
            seed: generator.seed,
        },
        defaults.shows,
        what.users_file.as_deref(),
    )
}
