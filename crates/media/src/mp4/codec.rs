//! A track's codec, with the configuration that a decoder needs before the first sample.

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Codec {
    /// H.264 (AVC).
    H264(H264),
    /// H.265 (HEVC).
    H265(H265),
    Aac(Aac),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct H264 {
    /// Profile, compatibility flags and level, from the first sequence parameter set.
    pub profile_level: [u8; 3],
    /// Bytes of the length field before each NAL unit: 1, 2 or 4.
    pub length_bytes: usize,
    /// Sequence parameter sets, then picture parameter sets: whole NAL units, none empty.
    pub parameter_sets: Vec<Box<[u8]>>,
    /// The AVCDecoderConfigurationRecord (ISO/IEC 14496-15, 5.3.3.1), unchanged from the file.
    pub configuration: Box<[u8]>,
    /// Width and height in pixels.
    pub size_pixels: (u16, u16),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct H265 {
    /// Bytes of the length field before each NAL unit: 1, 2 or 4.
    pub length_bytes: usize,
    /// Video, sequence and picture parameter sets, in this order: whole NAL units of at least a header.
    pub parameter_sets: Vec<Box<[u8]>>,
    /// The HEVCDecoderConfigurationRecord (ISO/IEC 14496-15, 8.3.3.1), unchanged from the file.
    pub configuration: Box<[u8]>,
    /// Width and height in pixels.
    pub size_pixels: (u16, u16),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aac {
    /// The AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1).
    pub configuration: Box<[u8]>,
    /// The audio object type: 2 is AAC-LC.
    pub object_type: u8,
    /// The core coder's sampling rate in Hz.
    pub sample_rate: u32,
    pub channels: u16,
}

impl Codec {
    pub fn name(&self) -> &'static str {
        match self {
            Codec::H264(_) => "H.264",
            Codec::H265(_) => "H.265",
            Codec::Aac(_) => "AAC",
        }
    }

    pub fn is_video(&self) -> bool {
        !matches!(self, Codec::Aac(_))
    }

    /// The clock rate of its RTP timestamps in Hz.
    pub fn clock_rate(&self) -> u32 {
        match self {
            Codec::H264(_) | Codec::H265(_) => 90_000,
            Codec::Aac(aac) => aac.sample_rate,
        }
    }
}

/// The usual name of a codec that is not supported, for error messages.
pub(super) fn describe(code: &[u8; 4]) -> Option<&'static str> {
    Some(match code {
        b"av01" => "AV1",
        b"vp08" => "VP8",
        b"vp09" => "VP9",
        b"mp4v" => "MPEG-4 Visual",
        b"jpeg" | b"mjpa" | b"mjpb" => "Motion JPEG",
        b"apch" | b"apcn" | b"apcs" | b"apco" | b"ap4h" => "ProRes",
        b"dvh1" | b"dvhe" | b"dva1" | b"dvav" => "Dolby Vision",
        b"vvc1" | b"vvi1" => "H.266",
        b"s263" | b"h263" => "H.263",
        b"SVQ1" | b"SVQ3" => "Sorenson Video",
        b"encv" | b"enca" => "encrypted",
        b"ac-3" => "Dolby Digital",
        b"ec-3" => "Dolby Digital Plus",
        b"Opus" => "Opus",
        b"fLaC" => "FLAC",
        b"alac" => "Apple Lossless",
        b".mp3" => "MP3",
        b"samr" | b"sawb" => "AMR",
        b"sowt" | b"twos" | b"lpcm" | b"ipcm" | b"in24" | b"fl32" => "uncompressed sound",
        b"ulaw" | b"alaw" => "G.711",
        _ => return None,
    })
}
