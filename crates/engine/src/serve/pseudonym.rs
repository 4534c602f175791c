//! The name of a proxy in Via.

use anyhow::anyhow;

/// Bytes of the random part.
const RANDOM_BYTES: usize = 4;

/// A name that no other proxy on a request's path has.
pub fn draw() -> anyhow::Result<String> {
    let mut random = [0; RANDOM_BYTES];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| anyhow!("cannot generate a name for Via: {error}\nhint: choose one with --via"))?;
    Ok(format!("sojourn-{:08x}", u32::from_ne_bytes(random)))
}
