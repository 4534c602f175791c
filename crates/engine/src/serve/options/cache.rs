//! Budgets of the caches, and how bodies travel.

use std::time::Duration;

use super::values::{duration, size};

/// Caches and the send path.
#[derive(clap::Args)]
#[command(next_help_heading = "Caches and sending")]
pub struct CacheOptions {
    /// Budget for open files by path [default: 16MiB, at most a 64th of the memory there is]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub path_cache: Option<usize>,
    /// Budget for response fields [default: 8MiB, at most a 128th of the memory there is]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub head_cache: Option<usize>,
    /// Budget for bodies, in chunks of 64 KiB
    /// [default: 128MiB, at most an eighth of the memory there is; mp 4MiB each]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub body_cache: Option<usize>,
    /// Look at a file again when it is asked for this long after the last look
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = duration)]
    pub recheck_after: Duration,
    /// Bodies up to this are copied behind their head and sent in one piece
    #[arg(long, default_value = "8KiB", value_name = "SIZE", value_parser = size)]
    pub copy_max: usize,
    /// Bodies up to this are kept in memory and gathered with their head; larger ones are sent from the page cache
    #[arg(long, default_value = "16KiB", value_name = "SIZE", value_parser = size)]
    pub memory_max: usize,
    /// Pad response heads to a multiple of 32 bytes, as Flash did for the copy of what follows
    #[arg(long)]
    pub align_heads: bool,
}
