//! Reads the five sample tables (`stbl`) into one list of samples.
//!
//! The tables are run-length coded, so a few bytes can promise billions of samples. The list is checked against its
//! limit before it grows, and every sample against the end of the file.

use super::boxes::Reader;
use super::error::{Mp4Error, REMUX};
use super::index::{Stored, presentation};
use super::{SAMPLE_BYTES_MAX, SAMPLES_MAX, TICKS_MAX};

pub struct Samples {
    pub samples: Vec<Stored>,
    /// The keyframes' numbers; `None` if every sample is one.
    pub keyframes: Option<Vec<u32>>,
    pub end_ticks: u64,
}

impl Samples {
    /// Drops what is shown at `end_ticks` and later, in presentation time: the last samples in decoding order, because
    /// those before them may be needed to decode what is shown. One sample stays.
    pub fn cut_off(&mut self, end_ticks: i64) {
        let kept = self.samples.iter().rposition(|sample| presentation(sample) < end_ticks);
        let count = kept.map_or(1, |last| last + 1);
        if let Some(first_dropped) = self.samples.get(count) {
            self.end_ticks = first_dropped.decode_ticks;
            self.samples.truncate(count);
            if let Some(numbers) = &mut self.keyframes {
                numbers.truncate(numbers.partition_point(|number| (*number as usize) < count));
            }
        }
    }
}

/// Reads the tables in `table` of this track. The file has `file_bytes` bytes, and its other tracks so far `taken`
/// samples.
pub fn read(table: Reader<'_>, track: u32, file_bytes: u64, taken: usize) -> Result<Samples, Mp4Error> {
    let sizes = Sizes::read(table)?;
    if sizes.count > SAMPLES_MAX - taken {
        let what = format!("{} samples of track {track}, after {taken} of others,", sizes.count);
        return Err(Mp4Error::TooMuch { what, offset: sizes.table.offset(), limit: SAMPLES_MAX as u64 });
    }
    let mut samples = Vec::with_capacity(sizes.count);
    place(&mut samples, table, &sizes, track, file_bytes)?;
    let end_ticks = decode_times(&mut samples, table.require(b"stts")?)?;
    if let Some(offsets) = table.find(b"ctts")? {
        composition_times(&mut samples, offsets)?;
    }
    let keyframes = match table.find(b"stss")? {
        Some(numbers) => Some(sync_samples(numbers, samples.len())?),
        None => None,
    };
    Ok(Samples { samples, keyframes, end_ticks })
}

/// The sample sizes: `stsz` or `stz2`.
struct Sizes<'a> {
    /// The size of all samples, if not 0.
    common: u32,
    /// Otherwise the table of sizes, and the bits of each entry.
    table: Reader<'a>,
    bits: u8,
    count: usize,
}

impl<'a> Sizes<'a> {
    fn read(table: Reader<'a>) -> Result<Sizes<'a>, Mp4Error> {
        if let Some(mut table) = table.find(b"stsz")? {
            table.version()?;
            let common = table.u32()?;
            let count = table.count(if common == 0 { 4 } else { 0 })?;
            return Ok(Sizes { common, table, bits: 32, count });
        }
        let mut table = table.require(b"stz2")?;
        table.version()?;
        table.take(3)?;
        let bits = table.u8()?;
        if !matches!(bits, 4 | 8 | 16) {
            return Err(table.malformed(format!("box stz2 has sizes of {bits} bits")));
        }
        let count = table.u32()? as usize;
        let mut entries = table;
        entries.take(count.div_ceil(if bits == 4 { 2 } else { 1 }) * usize::from(bits.div_ceil(8)))?;
        Ok(Sizes { common: 0, table, bits, count })
    }

    /// The size of sample `number`, which must exist.
    fn get(&self, number: usize) -> u32 {
        let bytes = self.table.rest();
        match (self.common, self.bits) {
            (0, 4) => u32::from(if number.is_multiple_of(2) {
                bytes[number / 2] >> 4
            } else {
                bytes[number / 2] & 15
            }),
            (0, 8) => u32::from(bytes[number]),
            (0, 16) => u32::from(u16::from_be_bytes([bytes[2 * number], bytes[2 * number + 1]])),
            (0, _) => {
                let bytes = &bytes[4 * number..4 * number + 4];
                u32::from_be_bytes(bytes.try_into().expect("four bytes"))
            }
            (common, _) => common,
        }
    }
}

/// Sets each sample's size and its offset, chunk by chunk.
fn place(
    samples: &mut Vec<Stored>,
    table: Reader<'_>,
    sizes: &Sizes<'_>,
    track: u32,
    file_bytes: u64,
) -> Result<(), Mp4Error> {
    let (mut chunks, is_wide) = match table.find(b"stco")? {
        Some(chunks) => (chunks, false),
        None => (table.require(b"co64")?, true),
    };
    chunks.version()?;
    let chunk_count = chunks.count(if is_wide { 8 } else { 4 })?;
    let mut runs = Runs::read(table)?;
    for chunk in 1..=chunk_count {
        let table_offset = chunks.offset();
        let mut offset = chunks.time(is_wide)?;
        for _ in 0..runs.samples_of(chunk as u64)?.min((sizes.count - samples.len()) as u32) {
            let size = sizes.get(samples.len());
            if size > SAMPLE_BYTES_MAX {
                let what = format!("sample {} of track {track} of {size} bytes", samples.len());
                return Err(Mp4Error::TooMuch { what, offset, limit: u64::from(SAMPLE_BYTES_MAX) });
            }
            let end = offset.saturating_add(u64::from(size));
            if end > file_bytes {
                let what = format!(
                    "sample {} of track {track} (its place is at byte {table_offset} of the file of {file_bytes} bytes)",
                    samples.len()
                );
                return Err(Mp4Error::Truncated { what, offset, end });
            }
            samples.push(Stored { offset, size, decode_ticks: 0, composition_ticks: 0 });
            offset = end;
        }
    }
    if samples.len() < sizes.count {
        let what = format!("track {track} has {} samples, but places of only {}", sizes.count, samples.len());
        return Err(Mp4Error::Malformed { what, offset: chunks.offset() });
    }
    Ok(())
}

/// Samples per chunk (`stsc`), as runs of chunks with equal counts.
struct Runs<'a> {
    table: Reader<'a>,
    left: usize,
    samples: u32,
    /// The number of the first chunk of the next run.
    next: u64,
}

impl<'a> Runs<'a> {
    fn read(table: Reader<'a>) -> Result<Runs<'a>, Mp4Error> {
        let mut table = table.require(b"stsc")?;
        table.version()?;
        let left = table.count(12)?;
        let mut runs = Runs { table, left, samples: 0, next: u64::MAX };
        runs.peek();
        Ok(runs)
    }

    fn peek(&mut self) {
        let mut ahead = self.table;
        self.next = match self.left {
            0 => u64::MAX,
            _ => ahead.u32().map_or(u64::MAX, u64::from),
        };
    }

    fn samples_of(&mut self, chunk: u64) -> Result<u32, Mp4Error> {
        while self.next <= chunk {
            let offset = self.table.offset();
            self.table.u32()?;
            self.samples = self.table.u32()?;
            if self.table.u32()? != 1 {
                let what = "a track that changes its coding midway (box stsc)".to_owned();
                return Err(Mp4Error::Unsupported { what, offset, hint: REMUX });
            }
            self.left -= 1;
            self.peek();
        }
        Ok(self.samples)
    }
}

/// Sets each sample's decoding time (`stts`); returns the end of the last sample.
fn decode_times(samples: &mut [Stored], mut table: Reader<'_>) -> Result<u64, Mp4Error> {
    table.version()?;
    let (mut ticks, mut filled) = (0_u64, 0);
    for _ in 0..table.count(8)? {
        let count = table.u32()? as usize;
        let delta = u64::from(table.u32()?);
        for sample in samples[filled..].iter_mut().take(count) {
            sample.decode_ticks = ticks;
            ticks += delta;
            if ticks > TICKS_MAX {
                let what = format!("a decoding time of {ticks} units");
                return Err(Mp4Error::TooMuch { what, offset: table.offset(), limit: TICKS_MAX });
            }
        }
        filled = samples.len().min(filled.saturating_add(count));
    }
    if filled < samples.len() {
        let what = format!("box stts has the times of {filled} of {} samples", samples.len());
        return Err(table.malformed(what));
    }
    Ok(ticks)
}

/// Sets each sample's composition offset (`ctts`). Offsets are read as signed in both versions, because many writers
/// put negative ones into version 0.
fn composition_times(samples: &mut [Stored], mut table: Reader<'_>) -> Result<(), Mp4Error> {
    table.version()?;
    let mut filled = 0;
    for _ in 0..table.count(8)? {
        let count = table.u32()? as usize;
        let composition_ticks = table.u32()? as i32;
        for sample in samples[filled..].iter_mut().take(count) {
            sample.composition_ticks = composition_ticks;
        }
        filled = samples.len().min(filled.saturating_add(count));
    }
    Ok(())
}

/// The numbers, from 0, of the keyframes (`stss`).
fn sync_samples(mut table: Reader<'_>, sample_count: usize) -> Result<Vec<u32>, Mp4Error> {
    table.version()?;
    let count = table.count(4)?;
    let mut numbers = Vec::with_capacity(count);
    for _ in 0..count {
        let offset = table.offset();
        let number = table.u32()?;
        let is_later = numbers.last().is_none_or(|last| *last + 1 < number);
        if number == 0 || number as usize > sample_count || !is_later {
            let what = format!("box stss has sample {number} of {sample_count}, not above the one before");
            return Err(Mp4Error::Malformed { what, offset });
        }
        numbers.push(number - 1);
    }
    Ok(numbers)
}
