//! A synthetic site: documents with sizes and popularity.

use rand::{Rng, RngExt};

use super::Synthesis;
use crate::variates;

/// The largest document, 50 MB. With the default parameters one in six thousand million is cut to it.
pub const SIZE_BYTES_MAX: u64 = 50_000_000;

/// Three documents in ten are pages, including the most popular one.
const PAGE_PATTERN: [bool; 10] = [true, false, false, false, true, false, false, true, false, false];

/// Documents in order of popularity.
pub struct Site {
    sizes: Vec<u64>,
    pages: Ranks,
    objects: Ranks,
}

impl Site {
    pub fn new(options: &Synthesis, random: &mut impl Rng) -> Self {
        let size = |_| {
            let size = (options.size_mu + options.size_sigma * variates::normal(random)).exp();
            (size.round() as u64).clamp(1, SIZE_BYTES_MAX)
        };
        let ranks = |pages| {
            let documents = (0..options.documents).filter(move |&document| is_page(document) == pages);
            Ranks::new(documents, options.popularity_slope)
        };
        Site { sizes: (0..options.documents).map(size).collect(), pages: ranks(true), objects: ranks(false) }
    }

    pub fn size_bytes(&self, document: u32) -> u64 {
        self.sizes[document as usize]
    }

    pub fn draw_page(&self, random: &mut impl Rng) -> u32 {
        self.pages.draw(random)
    }

    /// Draws an embedded object by popularity.
    pub fn draw_object(&self, random: &mut impl Rng) -> u32 {
        self.objects.draw(random)
    }

    pub fn path(&self, document: u32) -> String {
        match document {
            0 => "/".into(),
            _ if is_page(document) => format!("/pages/{document:05}.html"),
            _ if document % 10 == 1 => format!("/static/{document:05}.js"),
            _ if document % 10 == 2 => format!("/static/{document:05}.css"),
            _ => format!("/images/{document:05}.png"),
        }
    }
}

fn is_page(document: u32) -> bool {
    PAGE_PATTERN[document as usize % PAGE_PATTERN.len()]
}

/// Zipf's law over some of the ranks, each with its weight among all.
struct Ranks {
    documents: Vec<u32>,
    /// Running sums of the weights.
    sums: Vec<f64>,
}

impl Ranks {
    fn new(documents: impl Iterator<Item = u32>, slope: f64) -> Self {
        let documents: Vec<_> = documents.collect();
        let add = |sum: &mut f64, document: &u32| {
            *sum += f64::from(document + 1).powf(-slope);
            Some(*sum)
        };
        let sums = documents.iter().scan(0.0, add).collect();
        Ranks { documents, sums }
    }

    fn draw(&self, random: &mut impl Rng) -> u32 {
        let mark = random.random::<f64>() * self.sums.last().copied().unwrap_or(0.0);
        let index = self.sums.partition_point(|&sum| sum <= mark);
        self.documents[index.min(self.documents.len() - 1)]
    }
}
