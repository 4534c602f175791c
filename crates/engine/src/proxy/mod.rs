//! `sojourn-engine proxy`: options to upstreams, signals to a stop, counters to JSON.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use sojourn_server::proxy::{Cache, Nothing, Proxy, watch};
use sojourn_server::{Architecture, Board, CacheScope, Site, Stop, architecture, metrics, reopen_on_signal};

use crate::serve::listener::Listeners;
use crate::serve::privileges::Identity;
use crate::serve::site::{descriptors, usable_descriptors};
use crate::serve::succession::{self, Estate, Inheritance};
use crate::serve::{pin, serve, transports};

mod cache;
mod forward;
mod options;
mod upstream;

pub use options::Options;

/// Bytes of the random part of a pseudonym.
const PSEUDONYM_RANDOM_BYTES: usize = 4;

/// What to do about what needs one.
const ONE_PROCESS: &str = "hint: choose an architecture that is one process: mt or an event loop";

/// Passes requests on until a signal. `words` are the command line that was given.
pub fn run(options: &Options, words: &[OsString]) -> anyhow::Result<ExitCode> {
    if let Some(core) = options.pin_core {
        pin(core)?;
    }
    let architecture = architecture::by_name(&options.architecture).context("no such architecture")?;
    let scope = architecture.cache_scope().with_context(|| {
        let name = architecture.name();
        format!("{name} cannot be a proxy: each of its programs serves one connection\nhint: choose another, such as mt or amped")
    })?;
    metrics::begin();
    architecture.available()?;
    let mut inheritance = Inheritance::receive()?;
    let mut site = options.site(architecture, Board::new())?;
    let Listeners { listeners, are_passed } = options.listening.listeners(&options.tls, &mut inheritance)?;
    site.tls = options.tls.tls_of(&listeners, None)?;
    let estate = Estate {
        program: succession::program()?,
        words: words.to_vec(),
        sockets_are_passed: are_passed,
        transports: transports(&listeners)?,
        admin: options.listening.admin_listener(&mut inheritance)?,
    };
    if let Some(user) = &options.process.user {
        Identity::find(user)?.assume(options.log.access_log.as_deref(), [])?;
    }
    // As the user who serves: what is made there is that user's.
    let (cache, _keepers) = options.cache.open(scope, site.workers)?;
    if let Some(proxy) = &mut site.proxy {
        let proxy = Arc::make_mut(proxy);
        proxy.cache = if proxy.forward.is_some() { cache } else { cache.map(Cache::as_surrogate) };
    }
    let stop = Stop::on_signals(&[SIGTERM, SIGINT, SIGQUIT])?;
    let health_check = options.upstream.health_check();
    ensure!(
        scope == CacheScope::Server || health_check.is_none(),
        "with {} each process would have to ask upstreams for their health (--health-path)\n{ONE_PROCESS}",
        architecture.name()
    );
    // Children look names up themselves: what a thread of this process learns they do not see.
    if let Some(proxy) = site.proxy.as_ref().filter(|_| scope == CacheScope::Server) {
        watch(proxy, health_check.as_ref()).context("cannot watch the upstreams")?;
    }
    reopen_on_signal(&site.board)?;
    let served = serve(architecture, &site, listeners, &estate, inheritance, stop)?;
    if options.format == "json" {
        serde_json::to_writer(io::stdout(), &served)?;
        io::Write::write_all(&mut io::stdout(), b"\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Options {
    /// The site whose bytes come from the upstreams.
    fn site(&self, architecture: &dyn Architecture, board: Board) -> anyhow::Result<Site> {
        let defaults = architecture.defaults();
        ensure!(
            self.workers.is_none() || defaults.workers.is_some(),
            "{} has no workers to choose a number of\nhint: leave --workers out; mp, mt, helper, ncopy and uring have some",
            architecture.name()
        );
        let workers = self.workers.map(|workers| workers as usize).or(defaults.workers).unwrap_or(1);
        let usable = usable_descriptors(descriptors());
        // A request may need a connection on each side, and a tunnel two descriptors for each of them.
        let descriptors = if self.forward.forward { 4 } else { 2 };
        let connections_max =
            self.limits.connections_max.unwrap_or(usable / descriptors).clamp(1, usable - 1);
        let mut site = Site::new(Arc::new(Nothing));
        site.helpers = 1;
        site.workers = workers;
        site.board = board;
        site.limits = self.limits.limits(connections_max);
        site.limits.upstream = self.forward.limits(self.upstream.limits());
        site.log = self.log.open(&site.board)?;
        site.proxy = Some(Arc::new(Proxy {
            upstreams: self.upstream.upstreams()?,
            forward: self.forward.rules(),
            cache: None,
            pseudonym: self.pseudonym.clone().map_or_else(pseudonym, Ok)?,
        }));
        Ok(site)
    }
}

/// A name that no other proxy on a request's way has.
fn pseudonym() -> anyhow::Result<String> {
    let mut random = [0; PSEUDONYM_RANDOM_BYTES];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| anyhow!("cannot draw a name for Via: {error}\nhint: give one by --via"))?;
    Ok(format!("sojourn-{:08x}", u32::from_ne_bytes(random)))
}
