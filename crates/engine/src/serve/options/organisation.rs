//! The handler, the architecture and its parts.

use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser};
use sojourn_content::{HelperKind, residency};
use sojourn_server::{ALL, handler};

use super::values::duration;

/// Processes, threads, helpers, cores.
#[derive(clap::Args)]
#[command(next_help_heading = "Architecture")]
pub struct OrganisationOptions {
    /// The server architecture
    #[arg(long, default_value = "amped", value_parser = architectures())]
    pub architecture: String,
    /// What answers requests
    #[arg(long, default_value = handler::static_files::KIND.name, value_parser = handlers())]
    pub handler: String,
    /// The number of processes, threads or loops (mp, mt, helper, helper+fork, standard, ncopy, uring) [default: as the
    /// architecture's line says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// Helpers for the disk (amped; ncopy, for each copy)
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub helpers: u32,
    /// Whether helpers are threads, or processes as in Flash (amped, ncopy)
    #[arg(long, default_value = "threads", value_parser = helper_kinds())]
    pub helper_kind: String,
    /// Pin the server to this core
    #[arg(long, value_name = "CORE")]
    pub pin_core: Option<usize>,
    /// How to test whether data is in memory (amped, amped-nowait, ncopy) [default: nowait]
    #[arg(long, value_name = "TEST", value_parser = residencies())]
    pub residency: Option<String>,
    /// How long the test's answer about a large document is trusted; 0s tests before every send, as Flash did
    #[arg(long, default_value = "100ms", value_name = "TIME", value_parser = duration)]
    pub residency_trust: Duration,
}

fn architectures() -> PossibleValuesParser {
    ALL.iter().map(|row| PossibleValue::new(row.name()).help(row.summary())).collect::<Vec<_>>().into()
}

fn handlers() -> PossibleValuesParser {
    let rows = handler::without_options();
    rows.map(|(kind, _)| PossibleValue::new(kind.name).help(kind.summary)).collect::<Vec<_>>().into()
}

fn helper_kinds() -> PossibleValuesParser {
    HelperKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().into()
}

fn residencies() -> PossibleValuesParser {
    residency::ALL
        .iter()
        .map(|row| PossibleValue::new(row.name()).help(row.summary()))
        .collect::<Vec<_>>()
        .into()
}
