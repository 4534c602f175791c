//! Tracks frame boundaries: whether the received bytes end between two requests or within one.
//!
//! The implementation of the protocol does not tell, and timeouts depend on it: a client may be idle for long, but not
//! in the middle of a frame or of a header block. So the lengths of the frames are followed here, and nothing else.

/// A frame's header: length, type, flags, stream (RFC 9113, 4.1).
const HEAD_BYTES: usize = 9;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// The client's preface (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How far the client came.
#[derive(Debug)]
pub struct Frames {
    has_begun: bool,
    head: [u8; HEAD_BYTES],
    /// How much of it is there.
    head_length: usize,
    /// Missing bytes of the frame's payload; at the very beginning, of the preface.
    rest: usize,
    /// True if a header block goes on in the next frame.
    in_block: bool,
}

impl Frames {
    pub fn new() -> Frames {
        Frames {
            has_begun: false,
            head: [0; HEAD_BYTES],
            head_length: 0,
            rest: PREFACE.len(),
            in_block: false,
        }
    }

    pub fn follow(&mut self, mut bytes: &[u8]) {
        self.has_begun |= !bytes.is_empty();
        while !bytes.is_empty() {
            if self.rest > 0 {
                let count = self.rest.min(bytes.len());
                self.rest -= count;
                bytes = &bytes[count..];
                continue;
            }
            let count = (HEAD_BYTES - self.head_length).min(bytes.len());
            self.head[self.head_length..][..count].copy_from_slice(&bytes[..count]);
            self.head_length += count;
            bytes = &bytes[count..];
            if self.head_length == HEAD_BYTES {
                self.begin_frame();
            }
        }
    }

    fn begin_frame(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.head_length = 0;
        self.rest = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        if matches!(kind, HEADERS | CONTINUATION) {
            self.in_block = flags & END_HEADERS == 0;
        }
    }

    /// Returns true if something begun is not whole.
    pub fn is_partial(&self) -> bool {
        self.has_begun && (self.rest > 0 || self.head_length > 0 || self.in_block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_until_the_end_of_each_frame_and_block() {
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let headers = [0, 0, 2, HEADERS, 1, 0, 0, 0, 1, 0x82, 0x84];
        let continuation = [0, 0, 1, CONTINUATION, END_HEADERS, 0, 0, 0, 1, 0x86];
        let all = [PREFACE, &settings, &headers, &continuation].concat();
        let whole = [PREFACE.len(), PREFACE.len() + settings.len(), all.len()];
        let mut frames = Frames::new();
        assert!(!frames.is_partial());
        for (index, byte) in all.iter().enumerate() {
            frames.follow(&[*byte]);
            assert_eq!(!frames.is_partial(), whole.contains(&(index + 1)), "after {}", index + 1);
        }
        let mut frames = Frames::new();
        frames.follow(&all);
        assert!(!frames.is_partial());
    }
}
