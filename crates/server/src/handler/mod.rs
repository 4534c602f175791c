//! What answers requests.

pub mod hls;
