//! Budgets of the caches, and how bodies are sent.

use std::time::Duration;

use super::values::{duration, size};

/// Caches and the send path.
#[derive(clap::Args)]
#[command(next_help_heading = "Caches and sending")]
pub struct CacheOptions {
    /// Memory for open files by path [default: 16MiB, at most a 64th of the available memory]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub path_cache: Option<usize>,
    /// Memory for response fields [default: 8MiB, at most a 128th of the available memory]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub head_cache: Option<usize>,
    /// Memory for bodies, in chunks of 64 KiB [default: 128MiB, at most an eighth of the available memory; mp 4MiB
    /// each]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub body_cache: Option<usize>,
    /// Check a file again when it is requested this long after the last check
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = duration)]
    pub recheck_after: Duration,
    /// Bodies up to this size are copied behind their head and sent in one piece
    #[arg(long, default_value = "8KiB", value_name = "SIZE", value_parser = size)]
    pub copy_max: usize,
    /// Bodies up to this size are kept in memory and gathered with their head; larger ones are sent from the page cache
    #[arg(long, default_value = "16KiB", value_name = "SIZE", value_parser = size)]
    pub memory_max: usize,
    /// Pad response heads to a multiple of 32 bytes, as Flash did for the copy of what follows
    #[arg(long)]
    pub align_heads: bool,
}
