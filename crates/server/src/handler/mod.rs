//! What answers requests.

pub mod forward_proxy;
pub mod hls;
pub mod reverse_proxy;
