//! The header of a frame (RFC 9113, 4.1), and the numbers of frame types, flags and settings (6).

pub const HEAD_BYTES: usize = 9;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
/// RFC 9218, 7.1.
pub const PRIORITY_UPDATE: u8 = 0x10;

pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;
pub const HAS_PRIORITY: u8 = 0x20;

pub const HEADER_TABLE_SIZE: u16 = 1;
pub const ENABLE_PUSH: u16 = 2;
pub const MAX_CONCURRENT_STREAMS: u16 = 3;
pub const INITIAL_WINDOW_SIZE: u16 = 4;
pub const MAX_FRAME_SIZE: u16 = 5;
pub const MAX_HEADER_LIST_SIZE: u16 = 6;
/// RFC 8441, 3.
pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
/// RFC 9218, 2.1.
pub const NO_RFC7540_PRIORITIES: u16 = 9;

/// A setting's bytes in SETTINGS.
pub const SETTING_BYTES: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    pub length: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl FrameHead {
    pub fn read(bytes: [u8; HEAD_BYTES]) -> FrameHead {
        let [high, middle, low, kind, flags, stream @ ..] = bytes;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        FrameHead { length, kind, flags, stream: number(stream) & !(1 << 31) }
    }

    pub fn bytes(self) -> [u8; HEAD_BYTES] {
        let [_, high, middle, low] = (self.length as u32).to_be_bytes();
        let [first, second, third, fourth] = self.stream.to_be_bytes();
        [high, middle, low, self.kind, self.flags, first, second, third, fourth]
    }

    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame with a short payload.
pub fn append(output: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    output.extend_from_slice(&FrameHead { length: payload.len(), kind, flags, stream }.bytes());
    output.extend_from_slice(payload);
}

pub(super) fn number(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes)
}

/// The number at the start of `payload`, whose length has been checked.
pub(super) fn first_number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| number(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let head = FrameHead { length: 0x0001_0203, kind: 9, flags: 0x25, stream: 0x7fff_fffe };
        assert_eq!(head.bytes(), [1, 2, 3, 9, 0x25, 0x7f, 0xff, 0xff, 0xfe]);
        assert_eq!(FrameHead::read(head.bytes()), head);
        let reserved = [0, 0, 0, 0, 0, 0x80, 0, 0, 1];
        assert_eq!(FrameHead::read(reserved).stream, 1, "the reserved bit is ignored");
    }
}
