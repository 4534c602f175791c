//! Options of `load` about requests.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use sojourn_load::{
    Catalogue, Connections, Form, Pick, Requests, Scenario, ScenarioInputs, Shape, Target, Version, is_har,
    webstone,
};
use sojourn_workload::web99::LOAD_MAX;

use crate::text_file;

const REQUESTS: &str = "Requests";

#[derive(Args)]
#[command(group = clap::ArgGroup::new("what").args(["mix", "session_log", "walk", "web99", "scenario", "follow_redirects"]))]
pub struct RequestOptions {
    /// Request documents at random from a WebStone file list: lines of `/path weight #bytes`, below the URL's path.
    #[arg(long, value_name = "FILELIST", help_heading = REQUESTS)]
    mix: Option<PathBuf>,
    /// Run the sessions of an httperf --wsesslog file in turn; bursts are pipelined as in httperf.
    #[arg(long, value_name = "FILE", help_heading = REQUESTS)]
    session_log: Option<PathBuf>,
    /// Walk at random over the pages in this TOML file: pages, their objects, transition probabilities.
    #[arg(long, value_name = "FILE", help_heading = REQUESTS)]
    walk: Option<PathBuf>,
    /// Run a scenario with virtual users who log in, fill in forms and use values from responses: a TOML file
    /// (docs/scenarios.md), or a browser recording (HAR).
    #[arg(long, value_name = "FILE", help_heading = REQUESTS)]
    scenario: Option<PathBuf>,
    /// Keep a scenario's logged-in users between runs: read their cookies and values from this file, if it exists, and
    /// write them at the end.
    #[arg(long, value_name = "FILE", requires = "scenario", help_heading = REQUESTS)]
    pub users_file: Option<PathBuf>,
    /// Follow up to this many redirects of the URL, each user with its cookies, and count them separately.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100), help_heading = REQUESTS)]
    follow_redirects: Option<u32>,
    /// Request documents of a file set like SPECweb99's for this many connections: /file_set/dirNNNNN/classC_F.
    #[arg(long, value_name = "LOAD", value_parser = clap::value_parser!(u32).range(1..=i64::from(LOAD_MAX)), help_heading = REQUESTS)]
    web99: Option<u32>,
    /// The method.
    #[arg(long, default_value = "GET", help_heading = REQUESTS)]
    method: String,
    /// Add this field to each request, as 'Name: value'; repeatable.
    #[arg(short = 'H', long = "header", value_name = "FIELD", help_heading = REQUESTS)]
    header: Vec<String>,
    /// Send the content of this file as the body of each request.
    #[arg(long, value_name = "FILE", help_heading = REQUESTS)]
    body: Option<PathBuf>,
    /// Expect all responses of a document to have the size of the first, if no size is given; another is an error.
    #[arg(long, help_heading = REQUESTS)]
    same_size: bool,
    /// The default since --same-size was added.
    #[arg(long, hide = true, conflicts_with = "same_size")]
    any_size: bool,
    /// The most pipelined requests per connection [default: 1, with --session-log 64].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), help_heading = REQUESTS)]
    pipeline: Option<u32>,
    /// Defaults of a known benchmark: WebStone's mix and run rules, or connections at 400 kbit/s that ask for files and
    /// dynamic pages as SPECweb99's do, with --web99 for files alone. Other options take precedence.
    #[arg(long, help_heading = REQUESTS)]
    pub preset: Option<Preset>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    Webstone,
    Web99,
}

/// A burst of a session file is sent together up to this many requests.
const SESSION_PIPELINE: u32 = 64;

impl RequestOptions {
    /// The requests that the options describe, for this many clients of a closed loop.
    pub fn requests(
        &self,
        target: &Target,
        version: Version,
        connections: Connections,
        clients: Option<u32>,
        think_shape: Shape,
    ) -> anyhow::Result<(Catalogue, Requests)> {
        let body = self.body.as_deref().map(read_bytes).transpose()?.unwrap_or_default();
        let form = Form {
            method: &self.method,
            fields: &self.header,
            body: &body,
            any_size: !self.same_size,
            ..Form::get(target, version, connections)
        };
        form.check()?;
        if let Some(scenario) = self.scenario(&form, think_shape)? {
            ensure!(self.pipeline.is_none(), "--pipeline: users wait for each answer");
            scenario.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));
            return Ok((Catalogue::scenario(&form, &scenario), Requests::Scenario(Arc::new(scenario))));
        }
        let picked = |(catalogue, pick)| (catalogue, Requests::Pick(pick));
        if let Some(path) = &self.mix {
            return Ok(picked(Catalogue::mix(&form, &read_text(path)?).with_context(|| shown(path))?));
        }
        if let Some(path) = &self.session_log {
            return Catalogue::sessions(&form, &read_text(path)?).with_context(|| shown(path));
        }
        if let Some(path) = &self.walk {
            return Catalogue::walk(&form, &read_text(path)?).with_context(|| shown(path));
        }
        Ok(picked(match (self.web99, self.preset) {
            (Some(load), _) => Catalogue::web99(&form, load),
            (None, Some(Preset::Web99)) => {
                ensure!(self.pipeline.is_none(), "--pipeline: visitors wait for each answer");
                ensure!(
                    self.method == "GET" && self.body.is_none(),
                    "--method and --body have no effect: the preset defines the requests"
                );
                ensure!(
                    version != Version::Http2,
                    "--http 2: the preset's visitors use HTTP/1\nhint: --web99 N requests only files, with either version"
                );
                Catalogue::web99_with_dynamic(&form, clients.unwrap_or(1))
            }
            (None, Some(Preset::Webstone)) => Catalogue::mix(&form, webstone::FILELIST)?,
            (None, None) => (Catalogue::single(&form), Pick::First),
        }))
    }

    fn scenario(&self, form: &Form<'_>, think_shape: Shape) -> anyhow::Result<Option<Scenario>> {
        let folder = self.scenario.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        let inputs = ScenarioInputs {
            read_file: &|name| fs::read(folder.join(name)).map_err(|error| error.to_string()),
            environment: &|name| env::var(name).ok(),
            think_shape,
        };
        if let Some(redirects) = self.follow_redirects {
            return Ok(Some(Scenario::of_page(form, redirects, &inputs)?));
        }
        let Some(path) = &self.scenario else { return Ok(None) };
        ensure!(
            self.method == "GET" && self.body.is_none(),
            "--method and --body have no effect: the scenario defines the requests"
        );
        let text = read_text(path)?;
        let read = if is_har(&text) { Scenario::from_har } else { Scenario::parse };
        let mut scenario = read(form, &text, &inputs).with_context(|| shown(path))?;
        if let Some(path) = self.users_file.as_deref().filter(|path| path.exists()) {
            let kept = serde_json::from_str(&read_text(path)?);
            scenario.resume_users(
                kept.with_context(|| format!("{} contains no users from an earlier run", path.display()))?,
            );
        }
        Ok(Some(scenario))
    }

    pub fn pipeline(&self) -> u32 {
        self.pipeline.unwrap_or(if self.session_log.is_some() { SESSION_PIPELINE } else { 1 })
    }
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    text_file::read(path).with_context(|| shown(path))
}

fn read_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| shown(path))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
