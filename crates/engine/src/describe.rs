//! `sojourn-engine describe`: what other programs need to know about this one, as one JSON object. Python's types, the
//! reference page, completions and manual pages are generated from it.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;

use clap::{Args, Command};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sojourn_server::{ALL, CacheScope, CounterKind};

use crate::json;
use crate::table::CommandRow;

/// Describe this program as JSON: commands, options, architectures, counters, exit codes and the schemas of results.
///
/// All but `here` is the same on every machine.
#[derive(Args)]
#[command(after_help = "Example: sojourn-engine describe --json | jq '.commands[].name'")]
pub struct Options {
    /// The only format.
    #[arg(long)]
    json: bool,
}

/// The description of the engine for other programs.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
struct Description {
    version: &'static str,
    commands: Vec<CommandRow>,
    architectures: Vec<ArchitectureRow>,
    /// The counters of each server: the keys of its final report; metrics add a prefix.
    counters: BTreeMap<&'static str, Vec<CounterRow>>,
    exit_codes: BTreeMap<u8, &'static str>,
    /// JSON Schemas (draft 2020-12) by name; a reference is `#/schemas/` and the name.
    schemas: BTreeMap<String, Value>,
    /// The format of scenario files: JSON Schemas of their tables by name; a reference is `#/scenario/` and the name.
    scenario: BTreeMap<String, Value>,
    /// The generated values of `${...}` in scenarios.
    scenario_values: Vec<(&'static str, &'static str)>,
    /// Values that depend on this machine.
    here: Here,
}

/// A server architecture.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "Architecture"))]
struct ArchitectureRow {
    name: &'static str,
    summary: &'static str,
    /// True if `--workers` sets the number of processes, threads or loops.
    takes_workers: bool,
    /// The processes that share a proxy's cache; null if it cannot run a proxy.
    proxy_cache_per: Option<&'static str>,
}

/// A counter of a server.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "ServerCounter"))]
struct CounterRow {
    name: &'static str,
    /// `total` and `seconds` never decrease, `gauge` is a momentary value, `limit` counts how often a limit was
    /// reached.
    kind: &'static str,
    help: &'static str,
}

#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
struct Here {
    /// Architectures that this system cannot run, with the reason.
    architectures_unavailable: BTreeMap<&'static str, String>,
}

pub fn run(_: &Options, engine: &Command) -> anyhow::Result<ExitCode> {
    json::write_line(&mut io::stdout(), &Description::of(engine))?;
    Ok(ExitCode::SUCCESS)
}

impl Description {
    fn of(engine: &Command) -> Description {
        let unavailable = ALL.iter().filter_map(|row| Some((row.name(), row.available().err()?.to_string())));
        let Schemas { schemas, scenario } = Schemas::of_results_and_scenarios();
        Description {
            version: env!("CARGO_PKG_VERSION"),
            commands: CommandRow::all(engine),
            architectures: ALL.iter().map(|row| ArchitectureRow::of(*row)).collect(),
            counters: counters(),
            exit_codes: BTreeMap::from([
                (0, "it ran"),
                (1, "it ran with failures, or was interrupted"),
                (2, "it could not run"),
            ]),
            schemas,
            scenario,
            scenario_values: sojourn_load::GENERATED.to_vec(),
            here: Here { architectures_unavailable: unavailable.collect() },
        }
    }
}

impl ArchitectureRow {
    fn of(architecture: &dyn sojourn_server::Architecture) -> ArchitectureRow {
        ArchitectureRow {
            name: architecture.name(),
            summary: architecture.summary(),
            takes_workers: architecture.defaults().workers.is_some(),
            proxy_cache_per: architecture.cache_scope().map(|scope| match scope {
                CacheScope::Server => "server",
                CacheScope::Worker => "worker",
                CacheScope::Connection => "connection",
            }),
        }
    }
}

fn counters() -> BTreeMap<&'static str, Vec<CounterRow>> {
    let row = |name, kind, help| {
        let kind = match kind {
            CounterKind::Total => "total",
            CounterKind::Seconds => "seconds",
            CounterKind::Gauge => "gauge",
            CounterKind::Limit => "limit",
        };
        CounterRow { name, kind, help }
    };
    let http = sojourn_server::Counter::ALL.iter().map(|each| row(each.key(), each.kind(), each.help()));
    let rtsp = sojourn_rtsp_server::Counter::ALL.iter().map(|each| row(each.key(), each.kind(), each.help()));
    BTreeMap::from([("serve and proxy", http.collect()), ("stream", rtsp.collect())])
}

/// The schemas of results and of scenario files. To derive them takes a twentieth of the program and of its compilation, so it is done
/// where debugging assertions are on, as in tests. Other programs hold the text that `scripts/generate` wrote.
#[derive(Debug, PartialEq, Deserialize)]
struct Schemas {
    schemas: BTreeMap<String, Value>,
    scenario: BTreeMap<String, Value>,
}

impl Schemas {
    #[cfg(debug_assertions)]
    fn of_results_and_scenarios() -> Schemas {
        Schemas { schemas: schemas(), scenario: sojourn_load::scenario_schemas() }
    }

    #[cfg(not(debug_assertions))]
    fn of_results_and_scenarios() -> Schemas {
        Schemas::written()
    }

    #[cfg(any(test, not(debug_assertions)))]
    fn written() -> Schemas {
        serde_json::from_str(include_str!("schemas.json")).expect("scripts/generate writes what can be read")
    }
}

/// The JSON schemas of the commands' results, by name.
#[cfg(debug_assertions)]
fn schemas() -> BTreeMap<String, Value> {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/schemas".into();
    let mut generator = schemars::SchemaGenerator::new(settings);
    crate::load::add_schemas(&mut generator);
    crate::probe::add_schemas(&mut generator);
    generator.subschema_for::<crate::memory::MemoryRecord>();
    generator.subschema_for::<sojourn_link::Report>();
    generator.subschema_for::<sojourn_measure::machine::Machine>();
    generator.subschema_for::<Description>();
    generator.take_definitions(true).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all_commands;

    #[test]
    #[cfg(debug_assertions)]
    fn what_scripts_generate_wrote_is_what_is_derived() {
        assert!(Schemas::written() == Schemas::of_results_and_scenarios(), "run scripts/generate");
    }

    #[test]
    fn every_reference_between_schemas_leads_somewhere() {
        let Schemas { schemas, .. } = Schemas::of_results_and_scenarios();
        let text = serde_json::to_string(&schemas).unwrap();
        for reference in text.split("\"#/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
    }

    #[test]
    fn two_types_never_share_a_name() {
        // A second type with the same name would be called NAME2.
        let Schemas { schemas, .. } = Schemas::of_results_and_scenarios();
        let numbered = schemas.into_keys().find(|name| name.ends_with(|last: char| last.is_ascii_digit()));
        assert_eq!(numbered, None);
    }

    #[test]
    fn the_description_has_every_architecture_and_command() {
        let description = Description::of(&all_commands());
        assert_eq!(description.architectures.len(), ALL.len());
        assert!(description.commands.iter().any(|command| command.name == "replay"));
    }
}
