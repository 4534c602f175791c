//! A log with the ten figures of a published one: the table 1 of IBM RC22629, which had the logs of a site of the Olympic
//! Games, of a stock exchange and of a proxy, none of them available.
//!
//! Each figure is met by construction. Requests per file fall by a power law. Sizes are log-normal; the files of 97, 98, 99
//! and 100 % of the requests are scaled to the bytes of the table, and sizes fall or rise with popularity so that the
//! responses have theirs. Requests are independent of each other, in sessions of geometric length. There is one busy time
//! in the day, and each minute has its number of requests.

use std::io::{self, Write};
use std::ops::Range;

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use super::line::address;
use super::{DOCUMENTS_MAX, REQUESTS_MAX, SIZE_BYTES_MAX, SynthesisError, check};
use crate::variates;

const DAY_SECONDS: f64 = 86_400.0;

/// The middle of the busy time, as a share of the day, and its standard deviation where the peak is not high.
const BUSY_MIDDLE: f64 = 0.6;
const BUSY_WIDTH: f64 = 0.1;

/// Mean time between two requests of a session, exponential, and the longest: a longer one would end the session, even
/// where it is stretched.
const GAP_SECONDS_MEAN: f64 = 2.0;
const GAP_SECONDS_MAX: f64 = 5.0;

/// Average requests of a minute; with fewer, the gaps of sessions would have to be stretched too far.
const REQUESTS_PER_MINUTE_MIN: f64 = 60.0;

/// Standard deviation of the logarithm of sizes: as the web server study measured it.
const SIZE_SIGMA: f64 = 1.573;

/// Sizes may fall or rise with this power of the number of requests.
const TILT_MAX: f64 = 4.0;

/// How close the bytes of the responses must come, which are found by bisection.
const TOLERANCE: f64 = 1e-4;
const BISECTIONS: usize = 40;
const SCALINGS_MAX: usize = 100;
const SUM_TOLERANCE: f64 = 1e-9;

/// Of the files: those that answer 97 % of the requests, the further ones for 98, 99 and 100 %.
const PARTS: usize = 4;

/// The figures of a log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// The time that the log covers, up to a day.
    pub span_seconds: f64,
    pub requests: u32,
    /// Of a session: a client that pauses for less than the session gap.
    pub requests_per_connection: f64,
    /// The busiest minute's rate over the average.
    pub peak_over_average: f64,
    pub files: u32,
    pub files_total_bytes: u64,
    pub responses_total_bytes: u64,
    /// The bytes of the fewest files that answer 97 % of the requests.
    pub data_97_percent_bytes: u64,
    /// 98 %.
    pub data_98_percent_bytes: u64,
    /// 99 %.
    pub data_99_percent_bytes: u64,
    /// The exponent of the requests per file by rank.
    pub popularity_slope: f64,
}

/// The logs of the study by name. It has no popularity: the two sites' is such that the files of 97 % of the requests are,
/// on average, about as large as a response; the proxy's is from the middle of what Breslau et al. (INFOCOM 1999) found.
pub const SHAPES: &[(&str, Shape)] = &[
    (
        "olympics98",
        Shape {
            span_seconds: DAY_SECONDS,
            requests: 8_370_093,
            requests_per_connection: 12.0,
            peak_over_average: 171.0 / 97.0,
            files: 61_807,
            files_total_bytes: 705_000_000,
            responses_total_bytes: 49_871_000_000,
            data_97_percent_bytes: 24_800_000,
            data_98_percent_bytes: 50_900_000,
            data_99_percent_bytes: 141_000_000,
            popularity_slope: 1.34,
        },
    ),
    (
        "nyse",
        Shape {
            span_seconds: DAY_SECONDS,
            requests: 1_360_886,
            requests_per_connection: 8.5,
            peak_over_average: 46.0 / 16.0,
            files: 16_872,
            files_total_bytes: 171_000_000,
            responses_total_bytes: 2_811_000_000,
            data_97_percent_bytes: 3_740_000,
            data_98_percent_bytes: 6_460_000,
            data_99_percent_bytes: 13_900_000,
            popularity_slope: 1.34,
        },
    ),
    (
        "ircache",
        Shape {
            span_seconds: DAY_SECONDS,
            requests: 1_290_196,
            requests_per_connection: 31.0,
            peak_over_average: 2.0,
            files: 698_232,
            files_total_bytes: 6_205_000_000,
            responses_total_bytes: 10_172_000_000,
            data_97_percent_bytes: 2_498_000_000,
            data_98_percent_bytes: 2_860_000_000,
            data_99_percent_bytes: 3_382_000_000,
            popularity_slope: 0.7,
        },
    ),
];

/// A request before it is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at_ms: u32,
    session: u32,
    file: u32,
}

impl Shape {
    /// The same log with this share of its time, requests, files and bytes, so with the same rates.
    pub fn scaled(self, share: f64) -> Shape {
        let part = |bytes: u64| (bytes as f64 * share).round() as u64;
        Shape {
            span_seconds: self.span_seconds * share,
            requests: part(self.requests.into()) as u32,
            files: part(self.files.into()) as u32,
            files_total_bytes: part(self.files_total_bytes),
            responses_total_bytes: part(self.responses_total_bytes),
            data_97_percent_bytes: part(self.data_97_percent_bytes),
            data_98_percent_bytes: part(self.data_98_percent_bytes),
            data_99_percent_bytes: part(self.data_99_percent_bytes),
            ..self
        }
    }

    fn data_bytes(&self) -> [u64; 3] {
        [self.data_97_percent_bytes, self.data_98_percent_bytes, self.data_99_percent_bytes]
    }

    fn check(&self) -> Result<(), SynthesisError> {
        check("files", self.files, DOCUMENTS_MAX)?;
        check("requests", self.requests, REQUESTS_MAX)?;
        let [first, second, third] = self.data_bytes();
        let rises = 0 < first && first < second && second < third && third < self.files_total_bytes;
        let laws = [self.popularity_slope, self.requests_per_connection, self.peak_over_average];
        let is_possible = self.files <= self.requests
            && self.files_total_bytes <= self.responses_total_bytes
            && self.requests_per_connection >= 1.0
            && self.peak_over_average >= 1.0
            && (60.0..=DAY_SECONDS).contains(&self.span_seconds)
            && f64::from(self.requests) / self.span_seconds * 60.0 >= REQUESTS_PER_MINUTE_MIN
            && laws.iter().all(|law| law.is_finite() && *law >= 0.0);
        if rises && is_possible { Ok(()) } else { Err(SynthesisError::Shape) }
    }
}

/// Writes a day with these figures in Common Log Format, in order of time. Give a buffered writer.
///
/// # Errors
/// If no log can have these figures, or if it cannot be written.
pub fn write(
    shape: &Shape,
    random: &mut Xoshiro256PlusPlus,
    mut writer: impl Write,
) -> Result<(), SynthesisError> {
    shape.check()?;
    let counts = counts(shape);
    let sizes = sizes(shape, &counts, random)?;
    for entry in day(shape, &counts, random)? {
        line(&mut writer, entry, sizes[entry.file as usize])?;
    }
    Ok(writer.flush()?)
}

fn line(writer: &mut impl Write, entry: Entry, size_bytes: u64) -> io::Result<()> {
    let seconds = entry.at_ms / 1000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let (client, file) = (address(entry.session), entry.file);
    writeln!(
        writer,
        "{client} - - [15/May/2024:{hour:02}:{minute:02}:{second:02} +0000] \
         \"GET /{:03}/{file:06}.html HTTP/1.1\" 200 {size_bytes}",
        file % 1000
    )
}

/// Requests of each file, the most requested first; at least one.
fn counts(shape: &Shape) -> Vec<u32> {
    let law: Vec<f64> = (1..=shape.files).map(|rank| f64::from(rank).powf(-shape.popularity_slope)).collect();
    let of = |factor: f64| law.iter().map(move |share| (factor * share).max(1.0) as u32);
    let (mut low, mut high) = (0.0, f64::from(shape.requests));
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        if of(middle).map(u64::from).sum::<u64>() <= shape.requests.into() {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut counts: Vec<u32> = of(low).collect();
    let missing = u64::from(shape.requests) - counts.iter().copied().map(u64::from).sum::<u64>();
    let files = u64::from(shape.files);
    for (rank, count) in (0..).zip(&mut counts) {
        *count += (missing / files + u64::from(rank < missing % files)) as u32;
    }
    counts
}

/// The fewest files that answer 97, 98, 99 and 100 % of the requests: each part holds those that the one before lacks.
fn parts(counts: &[u32], requests: u32) -> [Range<usize>; PARTS] {
    let mut covered = 0;
    let mut start = 0;
    [97, 98, 99, 100].map(|percent| {
        let is_short = |covered: u64| covered * 100 < u64::from(requests) * percent;
        let mut end = start;
        while end < counts.len() && is_short(covered) {
            covered += u64::from(counts[end]);
            end += 1;
        }
        std::mem::replace(&mut start, end)..end
    })
}

/// Sizes in the order of `counts`; of equally requested files, the smaller come first.
fn sizes(shape: &Shape, counts: &[u32], random: &mut impl Rng) -> Result<Vec<u64>, SynthesisError> {
    let parts = parts(counts, shape.requests);
    let [first, second, third] = shape.data_bytes();
    let targets = [first, second - first, third - second, shape.files_total_bytes - third];
    let mut drawn: Vec<f64> = counts.iter().map(|_| (SIZE_SIGMA * variates::normal(random)).exp()).collect();
    let mut rest = drawn.as_mut_slice();
    for equal in counts.chunk_by(|a, b| a == b) {
        let (these, others) = rest.split_at_mut(equal.len());
        these.sort_unstable_by(f64::total_cmp);
        rest = others;
    }
    let wanted = shape.responses_total_bytes as f64;
    let (mut low, mut high) = (-TILT_MAX, TILT_MAX);
    for _ in 0..BISECTIONS {
        // The larger the tilt, the smaller are popular files.
        let tilt = (low + high) / 2.0;
        let mut sizes = tilted(&drawn, counts, tilt);
        scale(&mut sizes, counts, &parts, targets)?;
        let found: f64 = sizes.iter().zip(counts).map(|(size, count)| size * f64::from(*count)).sum();
        if (found / wanted - 1.0).abs() < TOLERANCE {
            return Ok(parts.into_iter().flat_map(|part| whole(&sizes[part])).collect());
        }
        if found > wanted {
            low = tilt;
        } else {
            high = tilt;
        }
    }
    Err(SynthesisError::Shape)
}

/// Sizes that fall with this power of the number of requests.
fn tilted(drawn: &[f64], counts: &[u32], tilt: f64) -> Vec<f64> {
    let (mut power_of, mut power) = (0, 1.0);
    let of = |(size, count): (&f64, &u32)| {
        if *count != power_of {
            (power_of, power) = (*count, f64::from(*count).powf(-tilt));
        }
        size * power
    };
    drawn.iter().zip(counts).map(of).collect()
}

/// Scales each part to its bytes. Where equally requested files are in two parts, the bound between their sizes lies in the
/// middle of what either part wants, and both keep to it.
fn scale(
    sizes: &mut [f64],
    counts: &[u32],
    parts: &[Range<usize>; PARTS],
    targets: [u64; PARTS],
) -> Result<(), SynthesisError> {
    for (part, target) in parts.iter().zip(targets) {
        let part = &mut sizes[part.clone()];
        let factor = target as f64 / part.iter().sum::<f64>();
        part.iter_mut().for_each(|size| *size *= factor);
    }
    let mut bounds = [(1.0, SIZE_BYTES_MAX as f64); PARTS];
    for (index, next) in parts.iter().enumerate().skip(1) {
        let is_split =
            0 < next.start && next.start < counts.len() && { counts[next.start - 1] == counts[next.start] };
        if is_split {
            let bound = (sizes[next.start - 1] * sizes[next.start]).sqrt();
            bounds[index - 1].1 = bound;
            bounds[index].0 = bound;
        }
    }
    for ((part, target), (least, most)) in parts.iter().zip(targets).zip(bounds) {
        scale_within(&mut sizes[part.clone()], &counts[part.clone()], target as f64, least, most)?;
    }
    Ok(())
}

/// Scales sizes to a sum. The equally requested files at the begin are not smaller than `least`, those at the end not larger
/// than `most`, and all are possible.
fn scale_within(
    sizes: &mut [f64],
    counts: &[u32],
    target: f64,
    least: f64,
    most: f64,
) -> Result<(), SynthesisError> {
    let (Some(first), Some(last)) = (counts.first(), counts.last()) else {
        return Err(SynthesisError::Shape);
    };
    let first_end = counts.partition_point(|count| count >= first);
    let last_start = counts.partition_point(|count| count > last);
    for _ in 0..SCALINGS_MAX {
        let mut bounded = 0.0;
        for (index, size) in sizes.iter_mut().enumerate() {
            let low = if index < first_end { least } else { 1.0 };
            let high = if index >= last_start { most } else { SIZE_BYTES_MAX as f64 };
            *size = size.clamp(low, high.max(low));
            bounded += *size;
        }
        if (bounded / target - 1.0).abs() < SUM_TOLERANCE {
            return Ok(());
        }
        sizes.iter_mut().for_each(|size| *size *= target / bounded);
    }
    Err(SynthesisError::Shape)
}

/// Whole numbers with the same sum.
fn whole(sizes: &[f64]) -> impl Iterator<Item = u64> {
    sizes.iter().scan((0.0, 0), |(sum, given), size| {
        *sum += size;
        let until = sum.round() as u64;
        Some(until - std::mem::replace(given, until))
    })
}

/// The day's requests in order of time.
fn day(shape: &Shape, counts: &[u32], random: &mut Xoshiro256PlusPlus) -> Result<Vec<Entry>, SynthesisError> {
    let mut files: Vec<u32> = Vec::with_capacity(shape.requests as usize);
    for (file, count) in (0..).zip(counts) {
        files.extend(std::iter::repeat_n(file, *count as usize));
    }
    files.shuffle(random);
    let minutes = minutes(shape)?;
    let mut entries = drawn(shape, &minutes, &files, random);
    entries.sort_unstable();
    move_to_minutes(&mut entries, &minutes, shape.span_seconds);
    Ok(entries)
}

/// A minute of the day; the last may be shorter.
struct Minute {
    seconds: Range<f64>,
    requests: usize,
}

/// How many requests each minute has: a bell on a level, as high as the peak wants it.
fn minutes(shape: &Shape) -> Result<Vec<Minute>, SynthesisError> {
    let (span, ratio) = (shape.span_seconds, shape.peak_over_average);
    let count = (span / 60.0).ceil();
    // As narrow as leaves half of the requests for the level.
    let width = BUSY_WIDTH.min(0.5 / ratio / (2.0 * std::f64::consts::PI).sqrt());
    let middle = (BUSY_MIDDLE * count).floor();
    let bell = |minute: f64| (-((minute - middle) / (width * count)).powi(2) / 2.0).exp();
    let length = |minute: f64| (span - 60.0 * minute).min(60.0) / 60.0;
    let each = || (0..count as u32).map(f64::from);
    let total: f64 = each().map(length).sum();
    let mean = each().map(|minute| bell(minute) * length(minute)).sum::<f64>() / total;
    // (1 + height) / (1 + height mean) = ratio
    let height = (ratio - 1.0) / (1.0 - ratio * mean);
    if !(height.is_finite() && height >= 0.0) {
        return Err(SynthesisError::Shape);
    }
    let average = f64::from(shape.requests) / total / (1.0 + height * mean);
    let (mut sum, mut given) = (0.0, 0);
    let minute = |minute: f64| {
        sum += average * (1.0 + height * bell(minute)) * length(minute);
        let until = sum.round() as usize;
        let requests = until - std::mem::replace(&mut given, until);
        let start = 60.0 * minute;
        Minute { seconds: start..start + 60.0 * length(minute), requests }
    };
    Ok(each().map(minute).collect())
}

/// Requests in sessions that start in proportion to the requests of the minutes.
fn drawn(shape: &Shape, minutes: &[Minute], files: &[u32], random: &mut impl Rng) -> Vec<Entry> {
    let sessions = ((f64::from(shape.requests) / shape.requests_per_connection).round() as u32).max(1);
    let until: Vec<usize> = minutes
        .iter()
        .scan(0, |sum, minute| {
            *sum += minute.requests;
            Some(*sum)
        })
        .collect();
    let mut entries = Vec::with_capacity(files.len());
    let (mut session, mut gaps) = (0, Vec::new());
    let mut files = files.iter();
    for left in (0..shape.requests).rev() {
        gaps.push((GAP_SECONDS_MEAN * variates::exponential(random)).min(GAP_SECONDS_MAX));
        // Each of the requests left begins one of the sessions left with equal probability.
        let is_last =
            left == 0 || random.random::<f64>() * f64::from(left) < f64::from(sessions - session - 1);
        if is_last {
            let mark = random.random_range(0..shape.requests as usize);
            let seconds = &minutes[until.partition_point(|sum| *sum <= mark)].seconds;
            let start = seconds.start + (seconds.end - seconds.start) * random.random::<f64>();
            // It ends before the log does.
            let duration = gaps[1..].iter().sum::<f64>();
            let mut at = start.min((shape.span_seconds - duration).max(0.0));
            for (number, gap) in gaps.drain(..).enumerate() {
                at += if number > 0 { gap } else { 0.0 };
                let file = *files.next().expect("there is a file for each request");
                entries.push(Entry { at_ms: (at * 1000.0) as u32, session, file });
            }
            session += 1;
        }
    }
    entries
}

/// Moves requests in order of time so that each minute has its number of them: all that come in a row are stretched or
/// compressed alike, so arrivals within a minute stay as irregular as they were.
fn move_to_minutes(entries: &mut [Entry], minutes: &[Minute], span_seconds: f64) {
    let mut rest = entries;
    for Minute { seconds, requests } in minutes {
        let (these, others) = rest.split_at_mut(*requests);
        let end_ms = others.first().map_or(span_seconds * 1000.0, |next| f64::from(next.at_ms));
        if let Some(start_ms) = these.first().map(|entry| f64::from(entry.at_ms)) {
            let factor = (seconds.end - seconds.start) * 1000.0 / (end_ms - start_ms).max(1.0);
            let last_ms = seconds.end * 1000.0 - 1.0;
            for entry in these {
                let at_ms = seconds.start * 1000.0 + (f64::from(entry.at_ms) - start_ms) * factor;
                entry.at_ms = at_ms.min(last_ms) as u32;
            }
        }
        rest = others;
    }
}
