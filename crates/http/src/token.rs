//! Character classes of RFC 9110: tokens (method names, field names, chunk extensions; 5.6.2), text and numbers.

/// Returns true if `byte` may occur in a token.
pub fn is_token(byte: u8) -> bool {
    IS_TOKEN[usize::from(byte)]
}

/// Returns true if `byte` is no control character: visible characters, blanks and obs-text (RFC 9110, 5.5).
pub fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Returns true if all of `bytes` are [text](is_text).
pub fn all_text(bytes: &[u8]) -> bool {
    // Tabs are rare.
    all(bytes, |word| (below(word, b' ') | below(word ^ each(0x7f), 1)) & each(0x80) == 0, is_text)
}

/// Returns true if all of `bytes` are visible ASCII characters.
pub fn all_graphic(bytes: &[u8]) -> bool {
    all(bytes, |word| not_graphic(word) & each(0x80) == 0, |byte| byte.is_ascii_graphic())
}

/// Returns true if all of `bytes` are visible ASCII characters, and there is no fragment: request targets have none.
pub fn is_target(bytes: &[u8]) -> bool {
    let word = |word: u64| (not_graphic(word) | below(word ^ each(b'#'), 1)) & each(0x80) == 0;
    all(bytes, word, |byte| byte.is_ascii_graphic() && byte != b'#')
}

fn not_graphic(word: u64) -> u64 {
    below(word, b'!') | word | word.wrapping_add(each(1))
}

/// Returns true if all of `bytes` are right: eight at a time where `word` can tell, or else by `byte`.
fn all(bytes: &[u8], word: impl Fn(u64) -> bool, byte: impl Fn(u8) -> bool) -> bool {
    let (words, rest) = bytes.as_chunks();
    words.iter().all(|eight| word(u64::from_le_bytes(*eight)) || eight.iter().all(|it| byte(*it)))
        && rest.iter().all(|it| byte(*it))
}

/// A word of eight times the byte.
const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Has a high bit if a byte of `word` is below `limit`, which is at most 128. It may be the bit of another byte.
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(each(limit)) & !word
}

const IS_TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let others = b"!#$%&'*+-.^_`|~";
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
};

/// Parses a decimal number of digits only: no sign, no blank, no overflow.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Parses a Content-Length that all recipients read alike: digits without leading zeros, which some take for octal.
pub(crate) fn content_length(value: &[u8]) -> Option<u64> {
    match value {
        [b'0', _, ..] => None,
        digits => decimal(digits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_at_a_time_are_as_one_by_one() {
        for length in 0..20 {
            for place in 0..length {
                for byte in 0..=255 {
                    for others in [b'!', b'~', b' ', b'\t', 0x80, 0xff] {
                        let mut bytes = vec![others; length];
                        bytes[place] = byte;
                        assert_eq!(all_text(&bytes), bytes.iter().all(|it| is_text(*it)), "{bytes:?}");
                        let is_graphic = bytes.iter().all(u8::is_ascii_graphic);
                        assert_eq!(all_graphic(&bytes), is_graphic, "{bytes:?}");
                        assert_eq!(is_target(&bytes), is_graphic && !bytes.contains(&b'#'), "{bytes:?}");
                    }
                }
            }
        }
    }
}
