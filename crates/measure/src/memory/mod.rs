//! Memory bandwidth by extended copy transfer (Kurmann and Stricker, 1998): bytes per second as a function of working
//! set (temporal locality) and stride (spatial locality).
//!
//! [`run`] takes a [`Sweep`] and returns [`Point`]s and, from pointer chasing, [`Latency`]s. A walk with stride s
//! touches every word of its working set once, in s rows: words 0, s, 2s, …, then 1, s+1, …. Only the working set
//! determines what a cache must hold; the stride determines how much of a cache line is used at once. Rows have at
//! least 32 words: smaller sets use a shorter stride, and are in the nearest cache anyway.

mod arena;
mod chase;
mod kernel;
mod results;
mod sweep;
mod team;
mod walk;

pub use arena::HugePages;
pub use kernel::Kernel;
pub use results::{GridPoint, Latency, Memory, Point, Spread};
pub use sweep::{Progress, Sweep, SweepError, run};

/// The unit of a walk.
pub const WORD_BYTES: usize = 8;

pub const WORKING_SET_BYTES_MIN: usize = 512;

pub const WORKING_SET_BYTES_MAX: usize = 16 << 30;

pub const STRIDE_WORDS_MAX: usize = 4096;
