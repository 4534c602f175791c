//! `sojourn-engine proxy`: options to upstreams, signals to a stop, counters to JSON.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use sojourn_server::handler::forward_proxy::ForwardSite;
use sojourn_server::handler::reverse_proxy::{Cache, NoDocuments, Proxy, Scheme, Upstream, watch};
use sojourn_server::sandbox::{Connections, Needs, RESOLVER};
use sojourn_server::{Architecture, CacheScope, Scoreboard, Site, architecture, memory, metrics};
use toml::Value;

use crate::serve::applications::draw_pseudonym;
use crate::serve::binary_upgrade::{Handover, Inheritance, Offer};
use crate::serve::config::expand;
use crate::serve::launcher::Launcher;
use crate::serve::options::bucket::let_signers_wait;
use crate::serve::origin::add_bucket;
use crate::serve::print::print;
use crate::serve::privileges::Identity;
use crate::serve::sandbox::{add_upstreams, place_of};
use crate::serve::site::{descriptors, usable_descriptors};
use crate::serve::{pin, serve};

mod cache;
mod fastcgi;
mod forward;
mod hosts;
mod options;

pub use options::Options;

/// The hint for options that need a single process.
const ONE_PROCESS: &str = "hint: choose an architecture with a single process: mt or an event loop";

/// Runs the proxy until a signal. `words` is the command line, for `command`.
pub fn run(options: &Options, command: &clap::Command, words: &[OsString]) -> anyhow::Result<ExitCode> {
    if let Some(core) = options.pin_core {
        pin(core)?;
    }
    let architecture = architecture::by_name(&options.architecture).context("no such architecture")?;
    let scope = architecture.cache_scope().with_context(|| {
        let name = architecture.name();
        format!("{name} cannot be a proxy: each of its processes serves a single connection\nhint: choose another architecture, such as mt or amped")
    })?;
    metrics::begin();
    memory::prepare();
    architecture.available()?;
    let mut inheritance = Inheritance::receive()?;
    let (mut site, mut proxy) = options.site(architecture, Scoreboard::new())?;
    Upstream::count_together(&mut proxy.upstreams);
    if scope != CacheScope::Server {
        proxy.upstreams.iter_mut().for_each(Upstream::share_among_processes);
        let_signers_wait(&proxy.upstreams);
    }
    let health_check = options.upstreams.health_check();
    ensure!(
        scope == CacheScope::Server || health_check.is_none(),
        "with {}, each process would need its own health checks (--health-path)\n{ONE_PROCESS}",
        architecture.name()
    );
    if options.print_config {
        let chosen = [("cache-memory", Value::from(options.cache.memory() as i64))];
        print(architecture, &chosen, &site, command, &expand(command, words)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let listeners = options.listening.listeners(&options.tls, &mut inheritance)?;
    site.tls = options.tls.tls_of(&listeners.listeners, None)?;
    let admin = options.listening.admin_listener(&mut inheritance)?;
    let offer = Offer::new(&listeners.listeners, listeners.are_passed, admin)?;
    let cache_bytes = options.cache.memory_of_process(scope, site.workers) as u64;
    memory::reserve_for_cache(cache_bytes);
    if cache_bytes as f64 > site.limits.memory_limit as f64 * memory::CACHE_SHARE_MAX {
        eprintln!(
            "warning: --cache-memory is more than seven eighths of the memory limit: once the cache is full, new connections are answered 503\nhint: set a smaller --cache-memory, or a larger --memory-limit"
        );
    }
    // All sockets of a port must belong to one user, so they are opened before the user changes.
    let listeners = architecture.listeners(listeners.listeners, site.workers)?;
    if let Some(user) = &options.process.user {
        Identity::find(user)?.assume(site.log.as_ref(), [])?;
    }
    // After the privileges are dropped: what is made and started then is the serving user's.
    let handover = Handover { launcher: Launcher::start(words)?, offer };
    if scope == CacheScope::Server {
        options.cache.make_directory();
    }
    let needs = Needs { io_uring: architecture.uses_io_uring(), ..options.needs(&proxy)? };
    options.process.enter_sandbox(&needs)?;
    let files_max = options.cache.files_max(usable_descriptors(descriptors()));
    let (cache, _disk_threads) = options.cache.open(scope, site.workers, files_max)?;
    proxy.cache = if proxy.forward.is_some() { cache } else { cache.map(Cache::as_surrogate) };
    let proxy = Arc::new(proxy);
    // Children do not see what a thread of this process finds out.
    if scope == CacheScope::Server {
        watch(&proxy, health_check.as_ref()).context("cannot watch the upstreams")?;
    }
    site.content = match ForwardSite::new(Arc::clone(&proxy)) {
        Some(forward) => Arc::new(forward),
        None => proxy,
    };
    serve(architecture, &site, listeners, &handover, inheritance, &options.format)
}

impl Options {
    /// The needs of `proxy` once it has started.
    fn needs(&self, proxy: &Proxy) -> anyhow::Result<Needs> {
        let mut needs = Needs { write: self.cache.cache_dir.iter().cloned().collect(), ..Needs::default() };
        needs.append.extend(place_of(self.log.access_log.as_deref()));
        if proxy.forward.is_some() {
            needs.read.extend(RESOLVER.iter().map(PathBuf::from));
            needs.connections = Connections::Any;
        } else {
            add_upstreams(proxy, &mut needs);
            let of_hosts = self.hosts.host.iter().flat_map(|host| &host.upstream);
            for location in self.upstream.iter().chain(of_hosts).filter_map(|url| url.bucket.as_ref()) {
                add_bucket(location, &self.upstreams.s3, &mut needs)?;
            }
        }
        Ok(needs)
    }

    /// The site, and the proxy that answers its requests.
    fn site(&self, architecture: &dyn Architecture, scoreboard: Scoreboard) -> anyhow::Result<(Site, Proxy)> {
        let defaults = architecture.defaults();
        ensure!(
            self.workers.is_none() || defaults.workers.is_some(),
            "{} does not use --workers\nhint: leave it out; mp, mt, helper, ncopy and uring have workers",
            architecture.name()
        );
        let workers = self.workers.map(|workers| workers as usize).or(defaults.workers).unwrap_or(1);
        let usable = usable_descriptors(descriptors());
        let usable = usable - self.cache.files_max(usable);
        // A request or a tunnel may need a connection on each side.
        let connections_max = self.limits.connections_max.unwrap_or(usable / 2).clamp(1, usable - 1);
        let mut site = Site::new(Arc::new(NoDocuments));
        site.helpers = 1;
        site.workers = workers;
        site.scoreboard = scoreboard;
        let processes = if architecture.cache_scope() == Some(CacheScope::Worker) { workers } else { 1 };
        site.limits = self.limits.limits(architecture, connections_max, processes);
        site.limits.upstream = self.forward.limits(self.upstreams.limits());
        site.log = self.log.open(&site.scoreboard)?;
        let general = &self.upstream;
        let (names, hosts) = self.hosts.table(general)?;
        site.hosts = Arc::new(names);
        let forward = self.forward.rules(|| self.upstreams.origins_tls())?;
        let of_hosts = self.hosts.host.iter().flat_map(|host| &host.upstream);
        let urls = general.iter().chain(of_hosts);
        ensure!(
            self.fastcgi.has_scripts() || urls.clone().all(|url| url.scheme != Scheme::FastCgi),
            "the location of the application's scripts is missing\nhint: give --fastcgi-root, or --fastcgi-script if one script answers everything"
        );
        let application = self.fastcgi.application();
        let proxy = Proxy {
            upstreams: if forward.is_some() {
                vec![]
            } else {
                self.upstreams.check_trust(urls.clone())?;
                self.upstreams.upstreams(urls.map(|url| (url, &application)))?
            },
            hosts,
            forward,
            cache: None,
            pseudonym: self.pseudonym.clone().map_or_else(draw_pseudonym, Ok)?,
        };
        Ok((site, proxy))
    }
}
