//! The configuration of AAC decoders: the elementary stream descriptor (ISO/IEC 14496-1, 7.2.6) and in it the
//! AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1).

use super::boxes::Reader;
use super::codec::Aac;
use super::error::{Mp4Error, REMUX};
use super::video::configuration;

/// Bytes of an AudioSampleEntry before QuickTime's version field, and the bytes that each version adds.
const RESERVED_BYTES: usize = 8;
const QUICKTIME_VERSION_1_BYTES: usize = 16;
const QUICKTIME_VERSION_2_BYTES: usize = 36;

const ES_DESCRIPTOR: u8 = 3;
const DECODER_CONFIG: u8 = 4;
const DECODER_SPECIFIC: u8 = 5;

/// Bytes of a decoder configuration descriptor after the object type: stream type, buffer size, bit rates.
const DECODER_CONFIG_BYTES: usize = 12;

/// The most bytes of a descriptor's length field.
const LENGTH_BYTES_MAX: usize = 4;

/// MP4 object types that mean AAC: MPEG-4, and the profiles of MPEG-2.
const AAC_OBJECTS: [u8; 4] = [0x40, 0x66, 0x67, 0x68];

/// Audio object types that decoders commonly support: Main, LC, SSR, LTP, and SBR and PS on top of them.
const AUDIO_OBJECTS: [u8; 6] = [1, 2, 3, 4, 5, 29];

/// Object types that extend another: spectral band replication, parametric stereo.
const EXTENDED_OBJECTS: [u8; 2] = [5, 29];

/// Sampling rates by their index (table 1.18).
const SAMPLE_RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

/// An audio track's entry in `stsd`.
pub enum AudioEntry {
    Aac(Aac),
    Other(String),
}

/// Reads the entry of kind `mp4a`; `None` for other kinds.
pub fn read(mut entry: Reader<'_>) -> Result<Option<AudioEntry>, Mp4Error> {
    if entry.kind.0 != *b"mp4a" {
        return Ok(None);
    }
    entry.take(RESERVED_BYTES)?;
    let version = entry.u16()?;
    entry.take(6)?;
    let channels = entry.u16()?;
    entry.take(10)?;
    match version {
        0 => {}
        1 => drop(entry.take(QUICKTIME_VERSION_1_BYTES)?),
        2 => drop(entry.take(QUICKTIME_VERSION_2_BYTES)?),
        _ => return Err(entry.malformed(format!("box mp4a has version {version}"))),
    }
    let descriptor = match entry.find(b"esds")? {
        Some(descriptor) => descriptor,
        // QuickTime nests it in `wave`.
        None => entry.require(b"wave")?.require(b"esds")?,
    };
    stream(descriptor, channels).map(Some)
}

fn stream(mut descriptor: Reader<'_>, channels: u16) -> Result<AudioEntry, Mp4Error> {
    descriptor.version()?;
    let mut stream = expect(descriptor, ES_DESCRIPTOR)?;
    stream.u16()?;
    let flags = stream.u8()?;
    if flags & 0x80 != 0 {
        stream.u16()?;
    }
    if flags & 0x40 != 0 {
        let length = stream.u8()?;
        stream.take(usize::from(length))?;
    }
    if flags & 0x20 != 0 {
        stream.u16()?;
    }
    let mut decoder = expect(stream, DECODER_CONFIG)?;
    let object = decoder.u8()?;
    if !AAC_OBJECTS.contains(&object) {
        let name = if matches!(object, 0x69 | 0x6b) { "MP3 " } else { "" };
        return Ok(AudioEntry::Other(format!("audio coded as {name}(mp4a.{object:02x})")));
    }
    decoder.take(DECODER_CONFIG_BYTES)?;
    specific(expect(decoder, DECODER_SPECIFIC)?, channels)
}

/// The content of the first descriptor; an error if it has another tag.
fn expect(mut within: Reader<'_>, tag: u8) -> Result<Reader<'_>, Mp4Error> {
    let found = within.u8()?;
    if found != tag {
        return Err(within.malformed(format!("box esds has descriptor {found} in place of {tag}")));
    }
    let mut length = 0;
    for _ in 0..LENGTH_BYTES_MAX {
        let byte = within.u8()?;
        length = length << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    let (kind, offset) = (within.kind, within.offset());
    Ok(Reader::new(kind, within.take(length)?, offset))
}

fn specific(config: Reader<'_>, entry_channels: u16) -> Result<AudioEntry, Mp4Error> {
    let bytes = configuration(&config)?;
    let mut bits = Bits { bytes: &bytes, position: 0 };
    let short = || config.malformed("box esds has a configuration of AAC that is cut off".to_owned());
    let object_type = bits.object_type().ok_or_else(short)?;
    if !AUDIO_OBJECTS.contains(&object_type) {
        return Ok(AudioEntry::Other(format!("audio coded as AAC of another kind (mp4a.40.{object_type})")));
    }
    let sample_rate = bits.sample_rate().ok_or_else(short)?;
    let channels = bits.take(4).ok_or_else(short)?;
    if EXTENDED_OBJECTS.contains(&object_type) {
        bits.sample_rate().ok_or_else(short)?;
    }
    if sample_rate == 0 {
        let what = "AAC with a reserved sampling rate".to_owned();
        return Err(Mp4Error::Unsupported { what, offset: config.offset(), hint: REMUX });
    }
    let channels = match channels {
        // 0 means that the channel layout is in the stream itself.
        0 => entry_channels.max(1),
        // From 7 on it is not the number of channels (ISO/IEC 14496-3, 1.6.3.4).
        7 | 12 | 14 => 8,
        11 => 7,
        13 => 24,
        channels => channels as u16,
    };
    Ok(AudioEntry::Aac(Aac { configuration: bytes, object_type, sample_rate, channels }))
}

struct Bits<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: usize) -> Option<u32> {
        let mut value = 0;
        for position in self.position..self.position + count {
            let bit = self.bytes.get(position / 8)? >> (7 - position % 8) & 1;
            value = value << 1 | u32::from(bit);
        }
        self.position += count;
        Some(value)
    }

    fn object_type(&mut self) -> Option<u8> {
        match self.take(5)? {
            31 => self.take(6).map(|more| more as u8 + 32),
            it => Some(it as u8),
        }
    }

    /// Sampling rate in Hz; 0 if the index is reserved.
    fn sample_rate(&mut self) -> Option<u32> {
        match self.take(4)? {
            15 => self.take(24),
            index => Some(SAMPLE_RATES.get(index as usize).copied().unwrap_or(0)),
        }
    }
}
