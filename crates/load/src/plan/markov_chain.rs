//! Markov chains of pages: the next page depends on the current one.
//!
//! A page is a burst: its own request is sent alone, its objects together after the response. After the think time the
//! visitor goes to another page with its probability; the remaining probability ends the visit. SPECweb2005 describes
//! its users this way.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;
use thiserror::Error;

use crate::plan::{
    distribution::{Distribution, Shape},
    duration,
    session_file::Burst,
};

/// The most pages of a chain.
pub const PAGES_MAX: usize = 10_000;
/// Longer visits are ended: a chain without an end is a mistake.
pub const VISIT_PAGES_MAX: u32 = 100_000;

/// Pages and transitions between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk<R> {
    pages: Vec<Page<R>>,
    start: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Page<R> {
    /// The page and its objects.
    pub burst: Burst<R>,
    /// The think time on the page; `None` means the run's.
    pub think: Option<Distribution>,
    /// The next pages with cumulative probabilities.
    next: Vec<(usize, f64)>,
}

#[derive(Clone, Debug, PartialEq, Error)]
pub enum WalkError {
    #[error("{0}")]
    Form(String),
    /// A referenced page is missing.
    #[error("{by} refers to page {page:?}, which does not exist")]
    NoSuchPage { page: String, by: String },
    #[error("page {page:?}: {path:?} is not a path that begins with a slash")]
    Path { page: String, path: String },
    #[error(
        "page {page:?}: each probability of a next page, and their sum, must be between 0 and 1; they sum to {sum}"
    )]
    Probabilities { page: String, sum: f64 },
    #[error("page {page:?}: {why}")]
    Think { page: String, why: String },
    /// Too many pages or objects.
    #[error("more than {PAGES_MAX} pages")]
    TooMany,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    start: String,
    pages: BTreeMap<String, FilePage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePage {
    path: String,
    #[serde(default)]
    objects: Vec<String>,
    think: Option<String>,
    think_law: Option<FileShape>,
    #[serde(default)]
    next: BTreeMap<String, f64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileShape {
    Constant,
    Exponential,
    Uniform,
    Lognormal,
}

/// Parses a chain; requests are paths.
pub fn parse(text: &str) -> Result<Walk<String>, WalkError> {
    let file: File = toml::from_str(text).map_err(|error| WalkError::Form(error.to_string()))?;
    if file.pages.len() > PAGES_MAX {
        return Err(WalkError::TooMany);
    }
    let number = |page: &str, by: &str| {
        let missing = || WalkError::NoSuchPage { page: page.to_owned(), by: by.to_owned() };
        file.pages.keys().position(|name| name == page).ok_or_else(missing)
    };
    let start = number(&file.start, "start")?;
    let mut pages = Vec::new();
    for (name, page) in &file.pages {
        let paths = std::iter::once(&page.path).chain(&page.objects);
        let requests = paths.map(|path| checked_path(name, path)).collect::<Result<_, _>>()?;
        let mut sum = 0.0;
        let mut next = Vec::new();
        for (to, &probability) in &page.next {
            sum += probability;
            if !(0.0..=1.0).contains(&probability) || sum > 1.0 + 1e-9 {
                return Err(WalkError::Probabilities { page: name.clone(), sum });
            }
            next.push((number(to, name)?, sum));
        }
        pages.push(Page { burst: Burst { requests, think: None }, think: think(name, page)?, next });
    }
    Ok(Walk { pages, start })
}

fn checked_path(page: &str, path: &str) -> Result<String, WalkError> {
    let is_path = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
    let refused = || WalkError::Path { page: page.to_owned(), path: path.to_owned() };
    is_path.then(|| path.to_owned()).ok_or_else(refused)
}

fn think(name: &str, page: &FilePage) -> Result<Option<Distribution>, WalkError> {
    let Some(mean) = &page.think else { return Ok(None) };
    let refused =
        |error: duration::DurationError| WalkError::Think { page: name.to_owned(), why: error.to_string() };
    let shape = match page.think_law {
        Some(FileShape::Constant) => Shape::Constant,
        Some(FileShape::Uniform) => Shape::Uniform,
        Some(FileShape::Lognormal) => Shape::LogNormal { variation: 1.0 },
        Some(FileShape::Exponential) | None => Shape::Exponential,
    };
    Ok(Some(Distribution { mean: duration::parse(mean).map_err(refused)?, shape }))
}

impl<R> Walk<R> {
    pub fn start(&self) -> usize {
        self.start
    }

    pub fn page(&self, page: usize) -> &Page<R> {
        &self.pages[page]
    }

    /// The page after this one; `None` ends the visit.
    pub fn next(&self, page: usize, random: &mut Xoshiro256PlusPlus) -> Option<usize> {
        let mark = random.random::<f64>();
        self.pages[page].next.iter().find(|(_, sum)| mark < *sum).map(|(next, _)| *next)
    }

    /// The same chain with converted requests.
    pub fn map<S>(self, mut request: impl FnMut(R) -> S) -> Walk<S> {
        let page = |page: Page<R>| Page {
            burst: Burst {
                requests: page.burst.requests.into_iter().map(&mut request).collect(),
                think: page.burst.think,
            },
            think: page.think,
            next: page.next,
        };
        Walk { pages: self.pages.into_iter().map(page).collect(), start: self.start }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// The support visitors of SPECweb2005; the remaining probability ends the visit.
    const SUPPORT: &str = r#"
        start = "home"
        [pages.home]
        path = "/"
        objects = ["/logo.png", "/style.css"]
        think = "5s"
        next = { search = 0.25, catalog = 0.75 }
        [pages.search]
        path = "/search"
        next = { product = 0.5, search = 0.5 }
        [pages.catalog]
        path = "/catalog"
        next = { product = 0.75, search = 0.25 }
        [pages.product]
        path = "/product"
        next = { files = 0.8, catalog = 0.2 }
        [pages.files]
        path = "/files"
        next = { file = 0.6, product = 0.4 }
        [pages.file]
        path = "/file"
        next = { download = 0.5, files = 0.2, product = 0.05, catalog = 0.05, search = 0.1, home = 0.1 }
        [pages.download]
        path = "/download"
    "#;

    #[test]
    fn shares_of_pages_follow_the_chain() {
        let walk = parse(SUPPORT).unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        let mut counts = BTreeMap::<&str, f64>::new();
        let visits = 20_000;
        for _ in 0..visits {
            let mut page = Some(walk.start());
            while let Some(at) = page {
                *counts.entry(&walk.page(at).burst.requests[0]).or_default() += 1.0;
                page = walk.next(at, &mut random);
            }
        }
        let all: f64 = counts.values().sum();
        assert!(
            (all / f64::from(visits) / 14.8 - 1.0).abs() < 0.02,
            "pages a visit: {}",
            all / f64::from(visits)
        );
        let shares = [
            ("/", 8.11),
            ("/search", 12.61),
            ("/catalog", 11.71),
            ("/product", 24.77),
            ("/files", 22.52),
            ("/file", 13.51),
            ("/download", 6.76),
        ];
        for (path, percent) in shares {
            let share = 100.0 * counts[path] / all;
            assert!((share / percent - 1.0).abs() < 0.03, "{path}: {share} %, not {percent} %");
        }
        let home = walk.page(walk.start());
        assert_eq!(home.burst.requests, ["/", "/logo.png", "/style.css"]);
        assert_eq!(home.think.unwrap().shape, Shape::Exponential);
    }

    #[test]
    fn refusals() {
        let page = |rest: &str| format!("start = \"a\"\n[pages.a]\npath = \"/a\"\n{rest}");
        assert!(matches!(parse("start = 1"), Err(WalkError::Form(_))));
        assert!(matches!(parse(&page("colour = 1")), Err(WalkError::Form(_))));
        assert!(matches!(parse(&page("next = { b = 0.5 }")), Err(WalkError::NoSuchPage { .. })));
        assert!(matches!(parse(&page("next = { a = 1.5 }")), Err(WalkError::Probabilities { .. })));
        assert!(matches!(parse(&page("objects = [\"x\"]")), Err(WalkError::Path { .. })));
        assert!(matches!(parse(&page("think = \"5\"")), Err(WalkError::Think { .. })));
        assert!(matches!(
            parse(&page("next = { a = 0.7, b = 0.7 }")),
            Err(WalkError::NoSuchPage { .. } | WalkError::Probabilities { .. })
        ));
    }
}
