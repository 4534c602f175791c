//! A reverse proxy in this process: its cache, rule by rule, over all single-process architectures.

mod admin;
mod applications;
mod buckets;
mod caching;
mod coalescing;
mod deception;
mod faults;
mod hit_rate;
mod memory;
mod partial;
mod sharing;
mod smuggling;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sojourn_cache_store::{ADMISSIONS, DiskSettings, Settings, replacement};
use sojourn_http_cache::Policy;
use sojourn_server::connection::Address;
use sojourn_server::handler::reverse_proxy::{
    Cache, ForcedHits, NoDocuments, Protocol, Proxy, Upstream as Configured, UpstreamState,
};
use sojourn_server::{ALL, CacheScope, Site, architecture};
use sojourn_testing::upstream::Upstream;

use crate::server::Server;

const DISK_THREADS: usize = 2;

/// Longer than any disk takes.
const DISK_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings that a test changes before the proxy starts.
struct Options {
    /// The limits and number of workers.
    site: Site,
    /// 0 bytes of memory mean no cache.
    memory: Settings,
    disk: Option<DiskSettings>,
    policy: Policy,
    forced_hits: Option<ForcedHits>,
}

impl Options {
    /// Stores responses in `directory`, too.
    fn keep_in(&mut self, directory: &Path) {
        self.disk = Some(DiskSettings {
            path: directory.to_owned(),
            bytes: 1 << 30,
            object_bytes_max: 1 << 30,
            policy: replacement::DEFAULT,
            admission: ADMISSIONS[0],
        });
    }
}

/// A change to the options.
type Setting<'a> = &'a dyn Fn(&mut Options);

/// Runs `test` over every architecture with one cache for the whole server.
fn over_sharing(
    settings: &[Setting<'_>],
    upstream: impl Fn() -> Upstream,
    test: impl Fn(&Server, &Upstream),
) {
    for architecture in ALL.iter().filter(|each| each.cache_scope() == Some(CacheScope::Server)) {
        eprintln!("{}:", architecture.name());
        let upstream = upstream();
        let server = proxy(architecture.name(), &[upstream.address], settings);
        test(&server, &upstream);
        server.stop();
    }
}

/// A proxy for `upstreams`.
fn proxy(architecture: &str, upstreams: &[SocketAddr], settings: &[Setting<'_>]) -> Server {
    proxy_of(architecture, upstreams.iter().map(|address| configured(*address)).collect(), settings)
}

fn proxy_of(architecture: &str, upstreams: Vec<Configured>, settings: &[Setting<'_>]) -> Server {
    let architecture = architecture::by_name(architecture).unwrap();
    let mut options = Options {
        site: Site::new(Arc::new(NoDocuments)),
        memory: Settings::default(),
        disk: None,
        policy: Policy::default(),
        forced_hits: None,
    };
    options.site.workers = architecture.defaults().workers.unwrap_or(1);
    for setting in settings {
        setting(&mut options);
    }
    let Options { mut site, memory, disk, policy, forced_hits } = options;
    let has_disk = disk.is_some();
    let mut cache = (memory.memory_bytes > 0).then(|| match disk {
        Some(disk) => Cache::open(memory, disk, policy).unwrap(),
        None => Cache::new(memory, policy),
    });
    let disk_threads = cache
        .as_ref()
        .filter(|_| has_disk)
        .map(|cache| cache.start_disk_threads(DISK_THREADS, DISK_TIMEOUT).unwrap());
    if let Some(forced) = forced_hits {
        cache = cache.map(|cache| cache.with_forced_hits(forced));
    }
    site.content = Arc::new(Proxy {
        hosts: std::iter::once(0..upstreams.len()).collect(),
        upstreams,
        forward: None,
        pseudonym: "me".to_owned(),
        cache: cache.map(Cache::as_surrogate),
    });
    let mut server = Server::with(architecture, site);
    server.disk_threads = disk_threads;
    server
}

fn configured(address: SocketAddr) -> Configured {
    Configured {
        name: address.to_string(),
        authority: address.to_string(),
        host: address.ip().to_string(),
        port: address.port(),
        presence: Arc::new(UpstreamState::new(&[Address::Internet(address)])),
        occupancy: Arc::default(),
        protocol: Protocol::Http,
        tls: None,
        weight: 1,
        idle_max: None,
        processes: None,
    }
}
