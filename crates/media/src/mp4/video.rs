//! The configuration of video decoders (ISO/IEC 14496-15): parameter sets, and the size of NAL unit lengths.

use super::CONFIGURATION_BYTES_MAX;
use super::FourCc;
use super::boxes::Reader;
use super::codec::{Codec, H264, H265};
use super::error::{Mp4Error, REMUX};

/// Bytes of a VisualSampleEntry before its child boxes, except width and height: reserved, resolution, names.
const ENTRY_HEAD_BYTES: usize = 24;
const ENTRY_TAIL_BYTES: usize = 50;

/// Bytes of a HEVCDecoderConfigurationRecord before the NAL unit length size: profile, tier, level, formats.
const H265_HEAD_BYTES: usize = 21;

/// The shortest NAL unit: its header.
const H264_NAL_BYTES_MIN: usize = 1;
const H265_NAL_BYTES_MIN: usize = 2;

/// H.265 NAL unit types of parameter sets, in the order in which a decoder needs them.
const H265_SETS: [u8; 3] = [32, 33, 34];

/// A video track's entry in `stsd`.
pub struct VideoEntry {
    pub codec: Codec,
    /// Horizontal and vertical pixel spacing.
    pub pixel_aspect: Option<(u32, u32)>,
}

/// Reads an entry of H.264 or H.265; `None` for other kinds.
pub fn read(mut entry: Reader<'_>) -> Result<Option<VideoEntry>, Mp4Error> {
    let kind = entry.kind.0;
    let is_h264 = match &kind {
        b"avc1" | b"avc3" => true,
        b"hvc1" | b"hev1" => false,
        _ => return Ok(None),
    };
    entry.take(ENTRY_HEAD_BYTES)?;
    let size_pixels = (entry.u16()?, entry.u16()?);
    entry.take(ENTRY_TAIL_BYTES)?;
    let pixel_aspect = match entry.find(b"pasp")? {
        Some(mut pasp) => Some((pasp.u32()?, pasp.u32()?)).filter(|(wide, high)| *wide > 0 && *high > 0),
        None => None,
    };
    let codec = if is_h264 {
        Codec::H264(h264(entry.require(b"avcC")?, size_pixels)?)
    } else {
        Codec::H265(h265(entry.require(b"hvcC")?, size_pixels)?)
    };
    Ok(Some(VideoEntry { codec, pixel_aspect }))
}

fn h264(mut record: Reader<'_>, size_pixels: (u16, u16)) -> Result<H264, Mp4Error> {
    let configuration = configuration(&record)?;
    let _version = record.u8()?;
    let profile_level = record.array()?;
    let length_bytes = length_bytes(&mut record)?;
    let mut parameter_sets = Vec::new();
    for mask in [0x1f, 0xff] {
        let count = record.u8()? & mask;
        for _ in 0..count {
            parameter_sets.push(nal_unit(&mut record, H264_NAL_BYTES_MIN)?);
        }
    }
    Ok(H264 { profile_level, length_bytes, parameter_sets, configuration, size_pixels })
}

fn h265(mut record: Reader<'_>, size_pixels: (u16, u16)) -> Result<H265, Mp4Error> {
    let configuration = configuration(&record)?;
    record.take(H265_HEAD_BYTES)?;
    let length_bytes = length_bytes(&mut record)?;
    let mut sets: [Vec<Box<[u8]>>; 3] = Default::default();
    for _ in 0..record.u8()? {
        let kind = record.u8()? & 0x3f;
        for _ in 0..record.u16()? {
            let unit = nal_unit(&mut record, H265_NAL_BYTES_MIN)?;
            if let Some(place) = H265_SETS.iter().position(|it| *it == kind) {
                sets[place].push(unit);
            }
        }
    }
    Ok(H265 { length_bytes, parameter_sets: sets.concat(), configuration, size_pixels })
}

/// The whole decoder configuration; an error if it is too long.
pub fn configuration(record: &Reader<'_>) -> Result<Box<[u8]>, Mp4Error> {
    let bytes = record.rest();
    if bytes.len() > CONFIGURATION_BYTES_MAX {
        let what = format!("box {} of {} bytes", record.kind, bytes.len());
        return Err(Mp4Error::TooMuch {
            what,
            offset: record.offset(),
            limit: CONFIGURATION_BYTES_MAX as u64,
        });
    }
    Ok(bytes.into())
}

fn length_bytes(record: &mut Reader<'_>) -> Result<usize, Mp4Error> {
    let offset = record.offset();
    match record.u8()? & 3 {
        2 => {
            let what = "NAL unit lengths of 3 bytes".to_owned();
            Err(Mp4Error::Unsupported { what, offset, hint: REMUX })
        }
        minus_one => Ok(usize::from(minus_one) + 1),
    }
}

fn nal_unit(record: &mut Reader<'_>, bytes_min: usize) -> Result<Box<[u8]>, Mp4Error> {
    let offset = record.offset();
    let length = usize::from(record.u16()?);
    let unit = record.take(length)?;
    if unit.len() < bytes_min {
        let what = format!("box {} has a parameter set of {length} bytes", record.kind);
        return Err(Mp4Error::Malformed { what, offset });
    }
    Ok(unit.into())
}

/// The usual name of the codec that a `stsd` entry of `kind` means.
pub fn codec_name(kind: FourCc, sort: &str) -> String {
    match super::codec::describe(&kind.0) {
        Some(name) => format!("{sort} coded as {name} ({kind})"),
        None => format!("{sort} coded as {kind}"),
    }
}
