//! Character classes of RFC 9110: tokens (method names, field names, chunk extensions; 5.6.2), text and numbers.

/// Returns true if `byte` may occur in a token.
pub fn is_token(byte: u8) -> bool {
    IS_TOKEN[usize::from(byte)]
}

/// Returns true if `text` has no control characters: visible characters, blanks and obs-text (RFC 9110, 5.5).
pub fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
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
