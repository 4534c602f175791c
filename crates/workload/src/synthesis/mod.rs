//! Generates a day of an access log from published statistics, for trials and examples without a real log.
//!
//! A site of documents (`site`) is visited (`visits`) by people who look at a page, fetch what it embeds in
//! a burst, think, and look at the next; `line` writes what a server would have logged, with the share of
//! not-modified answers, failures, queries and damaged lines that real logs have. The same options and
//! seed give the same bytes.

mod line;
pub mod shape;
mod site;
mod visits;

use std::io::{self, Write};

use rand_xoshiro::Xoshiro256PlusPlus;
use thiserror::Error;

pub use site::SIZE_BYTES_MAX;

use site::Site;

/// The most documents of a synthetic site.
pub const DOCUMENTS_MAX: u32 = 1_000_000;

/// The most requests of a synthetic day, about a hundred a second; all are in memory at once, 24 bytes each.
pub const REQUESTS_MAX: u32 = 10_000_000;

#[derive(Clone, Debug, PartialEq)]
pub struct Synthesis {
    pub documents: u32,
    /// The number of requests, accurate within one per cent.
    pub requests: u32,
    /// Mean of the logarithm of a document's size in bytes.
    pub size_mu: f64,
    /// Standard deviation of the logarithm.
    pub size_sigma: f64,
    pub popularity_slope: f64,
}

impl Default for Synthesis {
    /// Sizes as the web server study measured them (its 2.2.4: μ = 7.811, σ = 1.573), popularity as
    /// Breslau et al. (INFOCOM 1999) found it, 0.64 to 0.83 at proxies, steeper at servers.
    fn default() -> Self {
        Synthesis {
            documents: 3500,
            requests: 80_000,
            size_mu: 7.811,
            size_sigma: 1.573,
            popularity_slope: 0.9,
        }
    }
}

#[derive(Debug, Error)]
pub enum SynthesisError {
    /// A count is zero or too large.
    #[error("{what} must be from {least} to {most}, not {value}")]
    Count { what: &'static str, least: u32, most: u32, value: u32 },
    #[error("sizes and popularity need finite parameters that are not negative")]
    Law,
    #[error("no log that can be made has these figures")]
    Shape,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes the log in Combined Log Format and in order of time. Give a buffered writer.
pub fn synthesise(
    options: &Synthesis,
    random: &mut Xoshiro256PlusPlus,
    mut writer: impl Write,
) -> Result<(), SynthesisError> {
    check("documents", options.documents, DOCUMENTS_MAX)?;
    check("requests", options.requests, REQUESTS_MAX)?;
    let laws = [options.size_mu, options.size_sigma, options.popularity_slope];
    if !laws.iter().all(|value| value.is_finite() && *value >= 0.0) {
        return Err(SynthesisError::Law);
    }
    let site = Site::new(options, random);
    for entry in visits::day(&site, options.requests as usize, random) {
        line::write(&mut writer, &site, &entry)?;
    }
    Ok(writer.flush()?)
}

fn check(what: &'static str, value: u32, most: u32) -> Result<(), SynthesisError> {
    let least = 10; // below that a site has no pages with objects
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(SynthesisError::Count { what, least, most, value })
    }
}
