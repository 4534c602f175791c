//! A day of visits: arrivals, pages and think times.

use rand::{Rng, RngExt};

use super::site::Site;
use crate::variates;

const DAY_MS: f64 = 86_400_000.0;

/// Mean pages per visit, geometric.
const PAGES_MEAN: f64 = 3.3;

/// Mean objects per page, geometric and possibly none; in proportion to the pages of `site`.
const OBJECTS_MEAN: f64 = 2.4;

/// Mean time until the browser requests a page's objects, exponential.
const PARSE_MS_MEAN: f64 = 250.0;

/// Mean time between two objects of a burst, exponential.
const OBJECT_MS_MEAN: f64 = 15.0;

/// Median think time, log-normal. One pause in twenty exceeds 15 s and thus ends the session in the log.
const THINK_MS_MEDIAN: f64 = 4000.0;
const THINK_SIGMA: f64 = 0.8;

const CLIENTS: u32 = 3000;

/// The busy times of the day: hour, width in hours, and height above the quiet level of 1.
const HUMPS: [(f64, f64, f64); 2] = [(11.0, 2.5, 3.0), (20.5, 2.0, 4.0)];

/// The kinds of entries other than plain ones, per thousand requests.
const KINDS: [(Kind, f64); 8] = [
    (Kind::NotModified, 120.0),
    (Kind::Query, 22.0),
    (Kind::NotFound, 15.0),
    (Kind::Redirect, 5.0),
    (Kind::Post, 3.0),
    (Kind::Partial, 2.0),
    (Kind::Head, 1.0),
    (Kind::Damaged, 0.08),
];

/// A line of the log before it is written.
pub struct Entry {
    /// Milliseconds since midnight.
    pub at_ms: u32,
    pub client: u32,
    pub document: u32,
    /// The page that embeds it; for a page, itself.
    pub page: u32,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 200 with the document.
    Plain,
    /// 304.
    NotModified,
    Query,
    /// 404.
    NotFound,
    /// 302.
    Redirect,
    Post,
    /// 206.
    Partial,
    Head,
    /// A line cut off in the middle.
    Damaged,
}

/// Generates the day's entries in order of time; a visit in progress at midnight is cut off.
pub fn day(site: &Site, requests: usize, random: &mut impl Rng) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(requests + 100);
    while entries.len() < requests {
        visit(site, random, &mut entries);
    }
    entries.sort_by_key(|entry: &Entry| entry.at_ms);
    entries
}

fn visit(site: &Site, random: &mut impl Rng, entries: &mut Vec<Entry>) {
    let client = random.random_range(0..CLIENTS);
    let mut at_ms = draw_start_ms(random);
    for number in 0..1 + draw_geometric(PAGES_MEAN - 1.0, random) {
        if number > 0 {
            at_ms += THINK_MS_MEDIAN * (THINK_SIGMA * variates::normal(random)).exp();
        }
        let page = site.draw_page(random);
        add(entries, at_ms, client, page, page, random);
        at_ms += PARSE_MS_MEAN * variates::exponential(random);
        for _ in 0..draw_geometric(OBJECTS_MEAN, random) {
            add(entries, at_ms, client, site.draw_object(random), page, random);
            at_ms += OBJECT_MS_MEAN * variates::exponential(random);
        }
    }
}

fn add(entries: &mut Vec<Entry>, at_ms: f64, client: u32, document: u32, page: u32, random: &mut impl Rng) {
    let kind = draw_kind(random);
    if at_ms < DAY_MS {
        entries.push(Entry { at_ms: at_ms as u32, client, document, page, kind });
    }
}

/// Draws a start by rejection sampling from the day's activity.
fn draw_start_ms(random: &mut impl Rng) -> f64 {
    let highest: f64 = 1.0 + HUMPS.iter().map(|hump| hump.2).sum::<f64>();
    loop {
        let hour = 24.0 * random.random::<f64>();
        let hump = |&(centre, width, height): &(f64, f64, f64)| {
            height * (-((hour - centre) / width).powi(2) / 2.0).exp()
        };
        if random.random::<f64>() * highest < 1.0 + HUMPS.iter().map(hump).sum::<f64>() {
            return hour / 24.0 * DAY_MS;
        }
    }
}

/// Geometric from zero: the number of successes before the first failure.
fn draw_geometric(mean: f64, random: &mut impl Rng) -> u32 {
    let success = mean / (1.0 + mean);
    (variates::exponential(random) / -success.ln()) as u32
}

fn draw_kind(random: &mut impl Rng) -> Kind {
    let mut mark = 1000.0 * random.random::<f64>();
    for (kind, share) in KINDS {
        mark -= share;
        if mark < 0.0 {
            return kind;
        }
    }
    Kind::Plain
}
