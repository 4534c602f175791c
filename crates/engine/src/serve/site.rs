//! Makes a site from options: budgets and limits that fit the machine, the residency test, the log.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail, ensure};
use sojourn_content::{Budgets, Directories, Directory, HelperKind, Origin, Origins, Residency, residency};
use sojourn_measure::limits::raise_descriptors;
use sojourn_server::connection::SendPath;
use sojourn_server::handler;
use sojourn_server::handler::static_files::hls::Films;
use sojourn_server::{Architecture, CacheScope, Host, Hosts, Limits, Scoreboard, Site, UnknownHosts};

use super::options::Options;
use super::options::content::{ContentOptions, HostOptions};
use super::options::values::{BODIES_SHARE, HEADS_SHARE, PATHS_SHARE, budget};
use super::origin::url_of;

/// Descriptors reserved for listeners, events, logs and helpers: where there are few, half of them, but no less than it
/// takes.
const DESCRIPTORS_RESERVED_MAX: u64 = 64;
const DESCRIPTORS_RESERVED_MIN: u64 = 24;

/// The descriptor limit to ask for: the kernel's default maximum.
const DESCRIPTORS_WANTED: u64 = 1 << 20;

impl Options {
    /// The configured site with the defaults of `architecture`; it counts on `scoreboard`.
    pub fn site(&self, architecture: &dyn Architecture, scoreboard: Scoreboard) -> anyhow::Result<Site> {
        let (origin, hosts) = self.hosts()?;
        let defaults = architecture.defaults();
        let mut site = Site::new(origin);
        let (_, content) = handler::without_options()
            .find(|(kind, _)| kind.name == self.organisation.handler)
            .context("no such handler")?;
        site.content = content();
        site.hosts = Arc::new(hosts);
        site.scoreboard = scoreboard;
        site.helpers = self.organisation.helpers as usize;
        site.helper_kind = HelperKind::ALL
            .iter()
            .copied()
            .find(|kind| kind.name() == self.organisation.helper_kind)
            .context("no such helpers")?;
        site.workers = match (self.organisation.workers, defaults.workers) {
            (Some(_), None) => bail!(
                "{name} does not use --workers\nhint: leave it out; mp, mt, helper, ncopy and uring have workers",
                name = architecture.name()
            ),
            (Some(workers), Some(_)) => workers as usize,
            (None, default) => default.unwrap_or(1),
        };
        (site.budgets, site.limits) = self.limits(architecture, site.workers, descriptors());
        site.send_path = SendPath {
            copied_bytes_max: self.caching.copy_max as u64,
            memory_bytes_max: self.caching.memory_max as u64,
            aligns_heads: self.caching.align_heads,
        };
        ensure!(
            site.helper_kind == HelperKind::Threads || self.roots().all(|root| url_of(root).is_none()),
            "helper processes read files only, and there is a remote origin\nhint: use --helper-kind threads"
        );
        site.residency = self.residency_test()?;
        site.residency_trust = self.organisation.residency_trust;
        site.log = match self.log_pipe.filter(|_| self.log.access_log.is_some()) {
            Some(pipe) => Some(self.log.through(pipe)?),
            None => self.log.open(&site.scoreboard)?,
        };
        Ok(site)
    }

    /// The directories with their films as HLS, and the virtual hosts; `DIR` is the first.
    fn hosts(&self) -> anyhow::Result<(Arc<dyn Origin>, Hosts)> {
        let mut roots = vec![(self.root.clone(), self.content.clone())];
        let mut hls = vec![self.content.offers_hls()];
        let mut hosts = vec![Host { names: self.hosts.name.clone(), pages: self.content.pages() }];
        for HostOptions { names, root, content } in self.hosts.host.clone() {
            let content = content.or(&self.content);
            hls.push(content.offers_hls());
            hosts.push(Host { names, pages: content.pages() });
            roots.push((root, content));
        }
        let others =
            if self.hosts.unknown_host == "refuse" { UnknownHosts::Refused } else { UnknownHosts::First };
        if others == UnknownHosts::Refused && hosts.iter().all(|host| host.names.is_empty()) {
            bail!(
                "every host would be refused\nhint: name DIR's hosts with --name, or add hosts with --host"
            );
        }
        let hosts = Hosts::new(hosts, others)
            .map_err(|error| anyhow!("{error}\nhint: use each name once in --name and --host"))?;
        let files = self.origin_of(&roots)?;
        let is_offered = hls.contains(&true);
        let origin: Arc<dyn Origin> = if is_offered { Arc::new(Films::new(files, hls)) } else { files };
        Ok((origin, hosts))
    }

    /// The directories or remote origins of all hosts.
    fn origin_of(&self, roots: &[(PathBuf, ContentOptions)]) -> anyhow::Result<Arc<dyn Origin>> {
        let directory = |root: &Path, content: &ContentOptions| {
            Directory::new(root, content.rules()).map_err(|error| bad_root(root, &error))
        };
        if roots.iter().all(|(root, _)| url_of(root).is_none()) {
            let directories = roots.iter().map(|(root, content)| directory(root, content));
            return Ok(Arc::new(Directories::new(directories.collect::<Result<_, _>>()?)));
        }
        let origins = roots.iter().map(|(root, content)| -> anyhow::Result<Arc<dyn Origin>> {
            match url_of(root) {
                Some(url) => Ok(Arc::new(self.remote(url, content)?)),
                None => Ok(Arc::new(directory(root, content)?)),
            }
        });
        Ok(Arc::new(Origins::new(origins.collect::<Result<_, _>>()?)))
    }

    /// Budgets and limits for this many descriptors: connections come first, documents get the rest.
    fn limits(&self, architecture: &dyn Architecture, workers: usize, descriptors: u64) -> (Budgets, Limits) {
        let defaults = architecture.defaults().budgets;
        let processes = if architecture.cache_scope() == Some(CacheScope::Worker) { workers } else { 1 };
        let usable = usable_descriptors(descriptors);
        let connections_max = self.limits.connections_max.unwrap_or(usable / 4 * 3).clamp(1, usable - 1);
        let documents_max = defaults.documents_max.min(usable - connections_max);
        let within = |asked: Option<usize>, usual, share| asked.unwrap_or_else(|| budget(usual, share));
        let budgets = Budgets {
            path_bytes: within(self.caching.path_cache, defaults.path_bytes, PATHS_SHARE),
            head_bytes: within(self.caching.head_cache, defaults.head_bytes, HEADS_SHARE),
            body_bytes: within(self.caching.body_cache, defaults.body_bytes, BODIES_SHARE),
            documents_max,
            recheck_after: self.caching.recheck_after,
        };
        (budgets, self.limits.limits(architecture, connections_max, processes))
    }

    /// The requested residency test, or the default. A requested one that does not work is an error. The default one is
    /// no worse than no test, so the server prints a warning and continues.
    fn residency_test(&self) -> anyhow::Result<&'static dyn Residency> {
        let test = match &self.organisation.residency {
            Some(name) => residency::by_name(name).context("no such residency test")?,
            None => residency::ALL[0],
        };
        if url_of(&self.root).is_some() {
            return Ok(test);
        }
        match residency::probe(test, &self.root) {
            Err(error) if self.organisation.residency.is_some() => bail!("{error}\nhint: {}", error.hint()),
            Err(error) => eprintln!("warning: {error}: files that are not cached are sent through a helper"),
            Ok(()) => {}
        }
        Ok(test)
    }
}

/// Raises the descriptor limit as far as possible.
pub fn descriptors() -> u64 {
    raise_descriptors(DESCRIPTORS_WANTED)
}

/// How many of `descriptors` connections and documents may use.
pub fn usable_descriptors(descriptors: u64) -> usize {
    let reserved = (descriptors / 2).clamp(DESCRIPTORS_RESERVED_MIN, DESCRIPTORS_RESERVED_MAX);
    descriptors.saturating_sub(reserved).max(2) as usize
}

fn bad_root(root: &Path, error: &io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        ErrorKind::NotFound => "check the path, or create the directory",
        ErrorKind::NotADirectory => "give the directory that holds the file",
        ErrorKind::PermissionDenied => "the user who runs the server needs read and execute permission on it",
        _ => "check the path and the file system",
    };
    anyhow!("cannot serve {}: {error}\nhint: {hint}", root.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_shared_out() {
        let pairs = [(16, 2), (32, 8), (64, 32), (100, 50), (128, 64), (200, 136), (1024, 960)];
        assert_eq!(pairs.map(|(descriptors, _)| (descriptors, usable_descriptors(descriptors))), pairs);
    }
}
