//! Which bytes a token has: method names, field names, chunk extensions (RFC 9110, 5.6.2); and which a text has.

/// Returns true if `byte` may be part of a token.
pub fn is_token(byte: u8) -> bool {
    IS_TOKEN[usize::from(byte)]
}

/// Visible characters, blanks and obs-text (RFC 9110, 5.5): no control character.
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

/// A decimal number of digits only: no sign, no blank, no overflow.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// A Content-Length that all readers agree on: digits without leading zeros, which some take for octal.
pub(crate) fn content_length(value: &[u8]) -> Option<u64> {
    match value {
        [b'0', _, ..] => None,
        digits => decimal(digits),
    }
}
