//! `sojourn-engine scenario`: a scenario or a recording as one JSON object with nothing left to defaults.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf, absolute},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use sojourn_load::{Connections, Form, Scenario, ScenarioInputs, Shape, Target, Version};

use crate::{json, text_file};

/// Check a scenario, or make one of a browser's recording (HAR).
///
/// The scenario is printed as JSON with every name and method in it; `sojourn load --scenario` reads that, too. Files that it
/// refers to are named by their absolute paths.
#[derive(Args)]
#[command(after_help = "Example: a recording as a scenario to edit, where tokens are to be taken anew
  sojourn scenario site.har http://127.0.0.1:8000 > site.json")]
pub struct Options {
    /// TOML (docs/scenarios.md), JSON of the same form, or a recording.
    file: PathBuf,
    /// The server it is of: http[s]://HOST[:PORT][/PATH]
    url: String,
    /// The one format there is.
    #[arg(long, hide = true)]
    format: Option<String>,
}

pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let Options { file: path, url, .. } = options;
    let shown = || path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new(""));
    let inputs = ScenarioInputs {
        read_file: &|name| fs::read(folder.join(name)).map_err(|error| error.to_string()),
        environment: &|name| env::var(name).ok(),
        think_shape: Shape::Exponential,
    };
    let target = Target::resolve(url)?;
    let form = Form::get(&target, Version::Http11, Connections::KeepAlive);
    let renamed = |name: &str| {
        let beside = folder.join(name);
        absolute(&beside).unwrap_or(beside).display().to_string()
    };
    let text = text_file::read(path).with_context(shown)?;
    let (scenario, warnings) = Scenario::in_full(&form, &text, &inputs, &renamed).with_context(shown)?;
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    let mut output = io::stdout().lock();
    json::write_indented(&mut output, &scenario)?;
    writeln!(output)?;
    Ok(ExitCode::SUCCESS)
}
