//! Counts the body bytes of a chunked response without keeping any (RFC 9112, 7.1).

/// How far a chunked body has been read.
#[derive(Clone, Debug, Default)]
pub struct Chunked {
    state: State,
    /// Bytes of the chunk-size line or trailer line so far.
    line_bytes: usize,
    /// The size being read, then what is left of the chunk's data.
    remaining: u64,
    body_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    Extension,
    Data,
    DataEnd,
    Trailer,
    Done,
}

/// The longest line of sizes and extensions, or of a trailer.
const LINE_BYTES_MAX: usize = 4096;

/// The bytes are not a chunked body.
#[derive(Debug, PartialEq, Eq)]
pub struct NotChunked;

impl Chunked {
    /// Takes bytes in; answers how many belong to the body's coding. Fewer than given means that it ended.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, NotChunked> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Done {
            if self.state == State::Data {
                let part = self.remaining.min((bytes.len() - at) as u64);
                self.remaining -= part;
                self.body_bytes += part;
                at += part as usize;
                if self.remaining == 0 {
                    self.state = State::DataEnd;
                }
            } else {
                self.step(bytes[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    /// Whether the last chunk and the trailer are in.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The bytes of the body proper so far.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    fn step(&mut self, byte: u8) -> Result<(), NotChunked> {
        match (self.state, byte) {
            (State::Size | State::Extension, b'\n') if self.line_bytes > 0 => {
                self.state = if self.remaining == 0 { State::Trailer } else { State::Data };
                self.line_bytes = 0;
            }
            (State::Size, b';' | b'\r' | b' ' | b'\t') if self.line_bytes > 0 => {
                self.state = State::Extension
            }
            (State::Size, digit) => {
                let value = (digit as char).to_digit(16).ok_or(NotChunked)?;
                let shifted = self.remaining.checked_mul(16).ok_or(NotChunked)?;
                self.remaining = shifted + u64::from(value);
                self.line_bytes += 1;
            }
            (State::DataEnd, b'\r') => {}
            (State::DataEnd, b'\n') => self.state = State::Size,
            (State::Trailer, b'\n') if self.line_bytes == 0 => self.state = State::Done,
            (State::Trailer, b'\n') => self.line_bytes = 0,
            (State::Trailer, b'\r') => {}
            (State::Extension | State::Trailer, _) if self.line_bytes < LINE_BYTES_MAX => {
                self.line_bytes += 1
            }
            _ => return Err(NotChunked),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"5;a=b\r\nhello\r\n0A\r\n0123456789\r\n0\r\nX: y\r\n\r\nnext";

    #[test]
    fn counts_the_body_however_it_is_cut() {
        for cut in 0..BODY.len() - 4 {
            let mut chunked = Chunked::default();
            assert_eq!(chunked.feed(&BODY[..cut]), Ok(cut));
            assert!(!chunked.is_done(), "{cut}");
            assert_eq!(chunked.feed(&BODY[cut..]), Ok(BODY.len() - 4 - cut));
            assert!(chunked.is_done());
            assert_eq!(chunked.body_bytes(), 15);
        }
    }

    #[test]
    fn refusals() {
        for bad in ["\r\n", "x\r\n", "5\r\nhelloX", "fffffffffffffffff\r\n", ";\r\n"] {
            assert_eq!(Chunked::default().feed(bad.as_bytes()), Err(NotChunked), "{bad:?}");
        }
        let endless = format!("5;{}", "x".repeat(LINE_BYTES_MAX + 1));
        assert_eq!(Chunked::default().feed(endless.as_bytes()), Err(NotChunked));
    }
}
