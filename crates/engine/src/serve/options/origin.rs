//! Options of remote origins: what they may cost in time, and for how long content is trusted without asking.

use std::time::Duration;

use anyhow::ensure;
use sojourn_content::remote::RemoteLimits;
use sojourn_content::remote::client::Timeouts;
use sojourn_s3::Addressing;

use super::values::{duration, size};

/// The smallest and the largest chunk: each costs an exchange, and one is in memory per client.
const CHUNK_BYTES_MIN: usize = 64 << 10;
const CHUNK_BYTES_MAX: usize = 64 << 20;

/// A remote origin: `DIR` or a host's directory is a URL.
#[derive(clap::Args)]
#[command(next_help_heading = "Remote origin")]
pub struct OriginOptions {
    /// Timeout for connecting to a remote origin, including the TLS handshake
    #[arg(long, default_value = "3s", value_name = "TIME", value_parser = duration)]
    pub origin_connect_timeout: Duration,
    /// Timeout for the head of its response
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = duration)]
    pub origin_head_timeout: Duration,
    /// Timeout for a whole request to it, which fetches at most one chunk
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration)]
    pub origin_part_timeout: Duration,
    /// Fetch and cache objects in chunks of this size, 64KiB to 64MiB
    #[arg(long, default_value = "1MiB", value_name = "SIZE", value_parser = size)]
    pub origin_chunk: usize,
    /// How long an object's attributes are trusted at first; each check that finds them unchanged doubles it
    #[arg(long, default_value = "3s", value_name = "TIME", value_parser = duration)]
    pub origin_attributes_min: Duration,
    /// How long they are trusted at most
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub origin_attributes_max: Duration,
    /// How much longer a known object may be served if the origin fails
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = duration)]
    pub origin_stale: Duration,
}

/// Buckets, as origins and as upstreams.
#[derive(clap::Args)]
#[command(next_help_heading = "Object stores")]
pub struct S3Options {
    /// How a bucket is named in requests: in the host (virtual), in the path, or as its endpoint usually wants it (auto)
    #[arg(long, default_value = "auto", value_name = "STYLE", value_parser = addressings())]
    pub s3_addressing: String,
    /// Do not sign requests: for public buckets
    #[arg(long)]
    pub s3_unsigned: bool,
}

impl OriginOptions {
    pub fn timeouts(&self) -> Timeouts {
        Timeouts {
            connect: self.origin_connect_timeout,
            head: self.origin_head_timeout,
            part: self.origin_part_timeout,
        }
    }

    pub fn limits(&self) -> anyhow::Result<RemoteLimits> {
        ensure!(
            (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&self.origin_chunk),
            "--origin-chunk is out of its range\nhint: choose 64KiB to 64MiB"
        );
        ensure!(
            self.origin_attributes_min <= self.origin_attributes_max,
            "--origin-attributes-min is above --origin-attributes-max\nhint: raise the latter, too"
        );
        Ok(RemoteLimits {
            chunk_bytes: self.origin_chunk as u64,
            attributes_min: self.origin_attributes_min,
            attributes_max: self.origin_attributes_max,
            stale: self.origin_stale,
        })
    }
}

fn addressings() -> clap::builder::PossibleValuesParser {
    Addressing::ALL.iter().map(|addressing| addressing.name()).collect::<Vec<_>>().into()
}
