//! The options of the proxy's cache.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};
use sojourn_cache_store::replacement;
use sojourn_cache_store::{ADMISSIONS, DiskSettings, Settings, admission_by_name};
use sojourn_http_cache::Policy;
use sojourn_server::CacheScope;
use sojourn_server::handler::reverse_proxy::{Cache, DiskThreads, ForcedHits};

use super::ONE_PROCESS;
use crate::serve::options::values::{budget, duration, size};

/// The default memory for responses, on a machine with enough of it.
const MEMORY_BYTES: usize = 256 << 20;

/// The largest default share of the machine's memory, as 1 / N, because connections need memory too.
const MEMORY_SHARE: u64 = 4;

/// Where answers are kept, how much, and which.
#[derive(clap::Args)]
#[command(next_help_heading = "Cache")]
pub struct CacheOptions {
    /// Memory for cached responses of the whole server; separate processes divide it; 0 caches nothing in memory
    /// [default: 256MiB, at most a quarter of the available memory]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub cache_memory: Option<usize>,
    /// Also cache responses on disk in this directory, which is created if missing and must belong to this server only
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Disk space for cached responses
    #[arg(long, default_value = "10GiB", value_name = "SIZE", value_parser = size)]
    pub cache_disk: usize,
    /// Threads for the cache's disk
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cache_disk_threads: u16,
    /// How long a request waits for the cache's disk. After that it goes to an upstream, and so do others until the
    /// disk answers; a body being read is truncated, a body being written is not cached
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = duration)]
    pub cache_disk_timeout: Duration,
    /// Replacement policy in memory and on disk
    #[arg(long, default_value = replacement::DEFAULT.name, value_name = "POLICY", value_parser = policies())]
    pub cache_policy: String,
    /// Admission policy: which responses may replace others
    #[arg(long, default_value = ADMISSIONS[0].name, value_name = "RULE", value_parser = admissions())]
    pub cache_admission: String,
    /// Frequently sent bodies above 16 KiB are moved to memory files, from which they are sent over plain TCP without
    /// copying. At most this many files, each using a descriptor, and at most an eighth of the descriptors allowed; 0
    /// moves none
    #[arg(long, default_value_t = 4096, value_name = "N")]
    pub cache_memory_files: usize,
    /// Longer bodies are not cached; with --cache-dir, those above 8 MiB are cached on disk only [default: 8MiB, with
    /// --cache-dir 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub cache_object_max: Option<usize>,
    /// Freshness lifetime of cacheable errors (404, 405, 410, 414, 501) that give none; at most 5 minutes
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = duration)]
    pub cache_errors: Duration,
    /// How long responses may be used stale while no upstream answers, unless they forbid it; a longer stale-if-error
    /// takes precedence
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = duration)]
    pub cache_stale_disconnected: Duration,
    /// For experiments: a forced hit ratio from 0 to 1, drawn for each plain GET. A hit is answered from the cache,
    /// however stale; a miss goes to an upstream and is stored again. Clients get outdated responses
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    pub force_hit_ratio: Option<f64>,
    /// Seed of those draws
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub force_hit_seed: u64,
}

/// The longest body kept in memory if longer ones can be kept on disk, or by default.
const MEMORY_OBJECT_BYTES_MAX: u64 = 8 << 20;

/// The longest body kept on disk by default.
const DISK_OBJECT_BYTES_MAX: u64 = 1 << 30;

impl CacheOptions {
    /// Opens the cache, if one is configured, and the threads of its disk; each of `workers` may have its own cache.
    /// `files_max` is the [limit of memory files](CacheOptions::files_max) of all.
    pub fn open(
        &self,
        scope: CacheScope,
        workers: usize,
        files_max: usize,
    ) -> anyhow::Result<(Option<Cache>, Option<DiskThreads>)> {
        if scope != CacheScope::Server {
            return Ok((self.open_private(scope, workers)?, None));
        }
        let (cache, disk_threads) = self.open_tiers(files_max)?;
        let Some(ratio) = self.force_hit_ratio else { return Ok((cache, disk_threads)) };
        let cache = cache.context("--force-hit-ratio needs a cache\nhint: set --cache-memory above 0")?;
        eprintln!(
            "warning: --force-hit-ratio {ratio} is for experiments: hits are drawn at random, and clients may get outdated responses"
        );
        Ok((Some(cache.with_forced_hits(ForcedHits::new(ratio, self.force_hit_seed))), disk_threads))
    }

    /// Makes the directory, for this server alone: a sandbox can allow only what is there. Opening it reports failures.
    pub fn make_directory(&self) {
        if let Some(path) = &self.cache_dir {
            let _ = std::fs::DirBuilder::new().mode(0o700).recursive(true).create(path);
        }
    }

    /// The memory for responses.
    pub fn memory(&self) -> usize {
        self.cache_memory.unwrap_or_else(|| budget(MEMORY_BYTES, MEMORY_SHARE))
    }

    /// The memory of each process's cache, if there are so many `workers`.
    pub fn memory_of_process(&self, scope: CacheScope, workers: usize) -> usize {
        self.memory() / if scope == CacheScope::Worker { workers.max(1) } else { 1 }
    }

    /// The number of memory files, given the `usable` descriptors.
    pub fn files_max(&self, usable: usize) -> usize {
        if self.memory() > 0 { self.cache_memory_files.min(usable / 8) } else { 0 }
    }

    fn open_tiers(&self, files_max: usize) -> anyhow::Result<(Option<Cache>, Option<DiskThreads>)> {
        let Some(path) = &self.cache_dir else {
            let cache = (self.memory() > 0).then(|| Cache::new(self.settings(files_max), self.policy()));
            return Ok((cache, None));
        };
        ensure!(
            self.cache_disk > 0,
            "--cache-disk 0 leaves no space for {}\nhint: leave out --cache-dir",
            path.display()
        );
        let settings = self.settings(files_max);
        let disk = DiskSettings {
            path: path.clone(),
            bytes: self.cache_disk as u64,
            object_bytes_max: self.object_bytes_max(DISK_OBJECT_BYTES_MAX),
            policy: settings.policy,
            admission: settings.admission,
        };
        let cache = Cache::open(settings, disk, self.policy()).map_err(|error| {
            anyhow!(
                "cannot keep a cache in {}: {error}\nhint: choose a directory you may write to",
                path.display()
            )
        })?;
        let disk_threads =
            cache.start_disk_threads(self.cache_disk_threads.into(), self.cache_disk_timeout)?;
        Ok((Some(cache), Some(disk_threads)))
    }

    /// A cache for each process, which divides the memory, or for each connection.
    fn open_private(&self, scope: CacheScope, workers: usize) -> anyhow::Result<Option<Cache>> {
        for (is_given, option) in
            [(self.cache_dir.is_some(), "--cache-dir"), (self.force_hit_ratio.is_some(), "--force-hit-ratio")]
        {
            ensure!(
                !is_given,
                "{option} needs one shared cache, but each process of this architecture has its own\n{ONE_PROCESS}"
            );
        }
        let memory_bytes = self.memory_of_process(scope, workers);
        let settings = Settings { memory_bytes, shards: 1, ..self.settings(0) };
        Ok((self.memory() > 0).then(|| Cache::new(settings, self.policy()).private()))
    }

    fn policy(&self) -> Policy {
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        Policy {
            error_seconds: seconds(self.cache_errors),
            disconnected_seconds: seconds(self.cache_stale_disconnected),
            ..Policy::default()
        }
    }

    fn settings(&self, files_max: usize) -> Settings {
        let in_memory = self.object_bytes_max(MEMORY_OBJECT_BYTES_MAX);
        let has_disk = self.cache_dir.is_some();
        Settings {
            memory_bytes: self.memory(),
            memory_object_bytes_max: if has_disk {
                in_memory.min(MEMORY_OBJECT_BYTES_MAX)
            } else {
                in_memory
            },
            policy: replacement::by_name(&self.cache_policy).unwrap_or(replacement::DEFAULT),
            admission: admission_by_name(&self.cache_admission).unwrap_or(ADMISSIONS[0]),
            memory_files_max: files_max,
            ..Settings::default()
        }
    }

    fn object_bytes_max(&self, default: u64) -> u64 {
        self.cache_object_max.map_or(default, |bytes| bytes as u64)
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "a ratio is a number from 0 to 1".to_owned())
}

fn policies() -> PossibleValuesParser {
    let rows = replacement::ALL.iter();
    rows.map(|row| PossibleValue::new(row.name).help(row.summary)).collect::<Vec<_>>().into()
}

fn admissions() -> PossibleValuesParser {
    let rows = ADMISSIONS.iter();
    rows.map(|row| PossibleValue::new(row.name).help(row.summary)).collect::<Vec<_>>().into()
}
