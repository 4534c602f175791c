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
    next_look: Nanos,
}

impl Site {
    pub fn open(target: &Target) -> Reading<Site> {
        let Some(root) = target.site.clone() else { return Reading::unavailable("no site was named") };
        match SitePages::of(&root) {
            Ok(pages) => {
                let seen = Reading::unavailable("not looked at yet");
                Reading::Value(Site { root, pages, seen, next_look: Nanos::ZERO })
            }
            Err(error) => Reading::unavailable(error),
        }
    }

    fn look(&mut self) {
        let begun = clock::now();
        if begun < self.next_look {
            return;
        }
        self.seen = self.pages.look().into();
        let ended = clock::now();
        self.next_look = ended + Nanos((ended - begun).0 * REST_FACTOR);
    }
}

impl Source for Site {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn read(&mut self) -> Vec<Reading<f64>> {
        self.look();
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
            0 => Reading::unavailable(format!("{root} holds no bytes")),
            _ => resident.clone().map(share),
        };
        vec![resident, fraction, evicted]
    }
}
