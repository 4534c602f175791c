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

/// The code of each symbol, in its lowest bits.
static CODES: [u32; 257] = {
    let (rows, symbols) = TABLE;
    let mut codes = [0; 257];
    let mut bits = BITS_MIN;
    while bits <= BITS_MAX {
        let row = rows[bits];
        let mut place = 0;
        while place < row.count {
            codes[symbols[row.symbols + place as usize] as usize] = row.first + place;
            place += 1;
        }
        bits += 1;
    }
    codes
};

/// Codes of up to this many bits are found at once: those of all letters, digits, and nearly all of the rest.
const FAST_BITS: usize = 10;

/// By the next bits: the symbol, and the length of its code; 0 if the code is longer.
static FAST: [(u8, u8); 1 << FAST_BITS] = {
    let mut table = [(0, 0); 1 << FAST_BITS];
    let mut symbol = 0;
    while symbol < 256 {
        let bits = LENGTHS[symbol] as usize;
        if bits <= FAST_BITS {
            let first = (CODES[symbol] as usize) << (FAST_BITS - bits);
            let mut place = 0;
            while place < 1 << (FAST_BITS - bits) {
                table[first + place] = (symbol as u8, bits as u8);
                place += 1;
            }
        }
        symbol += 1;
    }
    table
};

/// Decodes `coded` and appends it to `text`. `None` if it is invalid: it contains EOS, or padding that is not a prefix
/// of EOS or is longer than seven bits (RFC 7541, 5.2).
pub fn decode(coded: &[u8], text: &mut Vec<u8>) -> Option<()> {
    // No code has fewer bits.
    text.reserve(coded.len() * 8 / BITS_MIN);
    let (mut held, mut held_bits, mut rest) = (0_u64, 0_usize, coded);
    loop {
        while held_bits <= 56
            && let Some((byte, after)) = rest.split_first()
        {
            held |= u64::from(*byte) << (56 - held_bits);
            held_bits += 8;
            rest = after;
        }
        let (symbol, bits) = match FAST[(held >> (64 - FAST_BITS)) as usize] {
            (_, 0) => symbol(held)?,
            (symbol, bits) => (u16::from(symbol), usize::from(bits)),
        };
        if bits > held_bits {
            break;
        }
        if symbol == EOS {
            return None;
        }
        text.push(symbol as u8);
        held <<= bits;
        held_bits -= bits;
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

/// The length of `text` when it is coded.
pub fn coded_length(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum();
    bits.div_ceil(8)
}

/// Codes `text` and appends it to `coded`.
pub fn encode(text: &[u8], coded: &mut Vec<u8>) {
    let (mut held, mut held_bits) = (0_u64, 0_usize);
    for byte in text {
        let (code, bits) = (CODES[usize::from(*byte)], usize::from(LENGTHS[usize::from(*byte)]));
        held = held << bits | u64::from(code);
        held_bits += bits;
        while held_bits >= 8 {
            held_bits -= 8;
            coded.push((held >> held_bits) as u8);
        }
    }
    if held_bits > 0 {
        // RFC 7541, 5.2: padding is the start of EOS, all ones.
        let padding = 8 - held_bits;
        coded.push((held << padding) as u8 | ((1 << padding) - 1) as u8);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        for (coded, text) in [
            (&www[..], "www.example.com"),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x64, 0x02], "302"),
            (&[], ""),
        ] {
            assert_eq!(decoded(coded).as_deref(), Some(text));
            let mut again = Vec::new();
            encode(text.as_bytes(), &mut again);
            assert_eq!((again.as_slice(), coded_length(text.as_bytes())), (coded, coded.len()), "{text}");
        }
    }

    #[test]
    fn what_is_no_code() {
        assert_eq!(decoded(&[0xff; 4]), None, "EOS");
        assert_eq!(decoded(&[0x1f, 0xff]), None, "padding of more than seven bits");
        assert_eq!(decoded(&[0x1e]), None, "padding with a zero");
        assert_eq!(decoded(&[0x1f]).as_deref(), Some("a"));
    }

    /// The table of short codes says the same as the rows.
    #[test]
    fn fast_and_slow_agree() {
        for (code, (fast, bits)) in FAST.iter().enumerate().filter(|(_, (_, bits))| *bits > 0) {
            let held = (code as u64) << (64 - FAST_BITS);
            assert_eq!(symbol(held), Some((u16::from(*fast), usize::from(*bits))), "{code:b}");
        }
    }

    proptest! {
        #[test]
        fn what_is_coded_is_decoded(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (mut coded, mut again) = (Vec::new(), Vec::new());
            encode(&text, &mut coded);
            prop_assert_eq!(coded.len(), coded_length(&text));
            prop_assert_eq!(decode(&coded, &mut again), Some(()));
            prop_assert_eq!(again, text);
        }
    }
}
