//! The memory characterisation by extended copy transfer (Kurmann and Stricker, 1998): how many bytes a second
//! move, as a function of working set (temporal locality) and stride (spatial locality).
//!
//! [`run`] takes a [`Sweep`] and answers [`Point`]s and, from chased pointers, [`Latency`]s. A walk with stride
//! s touches every word of its working set once, in s rows: words 0, s, 2s, …, then 1, s+1, …. So the working
//! set alone says what a cache must hold, and the stride how much of a line that was moved is used at once. Rows have
//! at least 32 words: in smaller sets the stride is shortened, where all is in the nearest cache anyway.

mod arena;
mod chase;
mod crew;
mod kernel;
mod results;
mod sweep;
mod walk;

pub use arena::HugePages;
pub use kernel::Kernel;
pub use results::{Latency, Memory, Place, Point, Spread};
pub use sweep::{Progress, Sweep, SweepError, run};

/// What is moved at a time.
pub const WORD_BYTES: usize = 8;

/// The smallest working set.
pub const WORKING_SET_BYTES_MIN: usize = 512;

/// The largest working set.
pub const WORKING_SET_BYTES_MAX: usize = 16 << 30;

/// The longest stride.
pub const STRIDE_WORDS_MAX: usize = 4096;
