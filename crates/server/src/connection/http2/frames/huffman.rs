//! The Huffman code of HPACK (RFC 7541, appendix B). It is canonical, so the code lengths define it.

/// The code length of each symbol in bits; the last symbol is EOS.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26, 30,
];

const EOS: u16 = 256;
const BITS_MIN: usize = 5;
const BITS_MAX: usize = 30;

/// The codes of one length: the first code, their number, and the index of their first symbol in `SYMBOLS`.
#[derive(Clone, Copy)]
struct Row {
    first: u32,
    count: u32,
    symbols: usize,
}

const TABLE: ([Row; BITS_MAX + 1], [u16; 257]) = {
    let mut rows = [Row { first: 0, count: 0, symbols: 0 }; BITS_MAX + 1];
    let mut symbols = [0; 257];
    let (mut bits, mut code, mut next) = (1, 0, 0);
    while bits <= BITS_MAX {
        code <<= 1;
        rows[bits] = Row { first: code, count: 0, symbols: next };
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == bits {
                symbols[next] = symbol as u16;
                next += 1;
                code += 1;
                rows[bits].count += 1;
            }
            symbol += 1;
        }
        bits += 1;
    }
    (rows, symbols)
};

/// Decodes `coded` and appends it to `text`. `None` if it is invalid: it contains EOS, or padding that is not a prefix
/// of EOS or is longer than seven bits (RFC 7541, 5.2).
pub fn decode(coded: &[u8], text: &mut Vec<u8>) -> Option<()> {
    let (mut held, mut held_bits, mut rest) = (0_u64, 0_usize, coded.iter());
    loop {
        while held_bits <= 56 {
            let Some(byte) = rest.next() else { break };
            held |= u64::from(*byte) << (56 - held_bits);
            held_bits += 8;
        }
        match symbol(held) {
            Some((symbol, bits)) if bits <= held_bits => {
                if symbol == EOS {
                    return None;
                }
                text.push(symbol as u8);
                held <<= bits;
                held_bits -= bits;
            }
            _ => break,
        }
    }
    let is_padding = held_bits < 8 && held.leading_ones() as usize >= held_bits;
    is_padding.then_some(())
}

/// The symbol whose code `held` starts with, and the code's length.
fn symbol(held: u64) -> Option<(u16, usize)> {
    let (rows, symbols) = &TABLE;
    (BITS_MIN..=BITS_MAX).find_map(|bits| {
        let (row, code) = (rows[bits], (held >> (64 - bits)) as u32);
        let place = code.checked_sub(row.first).filter(|place| *place < row.count)?;
        Some((symbols[row.symbols + place as usize], bits))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(coded: &[u8]) -> Option<String> {
        let mut text = Vec::new();
        decode(coded, &mut text)?;
        Some(String::from_utf8(text).unwrap())
    }

    /// RFC 7541, C.4 and C.6.
    #[test]
    fn the_examples() {
        let www = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decoded(&www).as_deref(), Some("www.example.com"));
        assert_eq!(decoded(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).as_deref(), Some("no-cache"));
        assert_eq!(decoded(&[0x64, 0x02]).as_deref(), Some("302"));
        assert_eq!(decoded(&[]).as_deref(), Some(""));
    }

    #[test]
    fn what_is_no_code() {
        assert_eq!(decoded(&[0xff; 4]), None, "EOS");
        assert_eq!(decoded(&[0x1f, 0xff]), None, "padding of more than seven bits");
        assert_eq!(decoded(&[0x1e]), None, "padding with a zero");
        assert_eq!(decoded(&[0x1f]).as_deref(), Some("a"));
    }
}
