//! How much of a site's files is in memory, checked rarely enough to cost little.

use std::path::PathBuf;

use super::{Source, Target};
use crate::site_pages::{Residency, SitePages};
use crate::{Nanos, Reading, clock};

pub const NAMES: &[&str] = &["site_resident_bytes", "site_resident_fraction", "site_recently_evicted_bytes"];

/// The pause between two checks is at least this many times the duration of one.
const REST_FACTOR: u64 = 20;

/// A site and the result of the last check.
pub struct Site {
    root: PathBuf,
    pages: SitePages,
    seen: Reading<Residency>,
    next_at: Nanos,
}

impl Site {
    pub fn open(target: &Target) -> Reading<Site> {
        let Some(root) = target.site.clone() else { return Reading::unavailable("no site was named") };
        match SitePages::of(&root) {
            Ok(pages) => {
                let seen = Reading::unavailable("not measured yet");
                Reading::Value(Site { root, pages, seen, next_at: Nanos::ZERO })
            }
            Err(error) => Reading::unavailable(error),
        }
    }

    fn measure(&mut self) {
        let begun = clock::now();
        if begun < self.next_at {
            return;
        }
        self.seen = self.pages.measure().into();
        let ended = clock::now();
        self.next_at = ended + Nanos((ended - begun).0 * REST_FACTOR);
    }
}

impl Source for Site {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn read(&mut self) -> Vec<Reading<f64>> {
        self.measure();
        let (root, bytes) = (self.root.display(), self.pages.bytes());
        let resident = self.seen.clone().map(|seen| seen.resident_bytes as f64);
        let evicted = self.seen.clone().and_then(|seen| {
            seen.recently_evicted_bytes
                .map(|bytes| bytes as f64)
                .ok_or("the kernel has no cachestat (Linux 6.5)")
        });
        // The last page of a file is only partly filled.
        let share = |resident: f64| (resident / bytes as f64).min(1.0);
        let fraction = match bytes {
            0 => Reading::unavailable(format!("{root} has no files with content")),
            _ => resident.clone().map(share),
        };
        vec![resident, fraction, evicted]
    }
}
