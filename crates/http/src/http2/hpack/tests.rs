//! The examples of RFC 7541, what is no block, and encoder and decoder against each other.

use proptest::prelude::*;

use super::*;

/// Strings by pattern are slow to make; the fuzz target `http2_fields` tries more.
const CASES: u32 = if cfg!(miri) { 1 } else { 32 };
const MESSAGES_MAX: usize = if cfg!(miri) { 2 } else { 29 };

fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, BadBlock> {
    let mut fields = Vec::new();
    decoder.read(block, |field| {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        fields.push(format!("{}: {}", text(field.name), text(field.value)));
    })?;
    Ok(fields)
}

/// RFC 7541, C.4.
#[test]
fn the_examples_of_requests() {
    let mut decoder = Decoder::new(4096);
    let first = [
        0x82, 0x86, 0x84, 0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
    ];
    let pseudo = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
    assert_eq!(fields(&mut decoder, &first).unwrap(), pseudo);
    let second = [0x82, 0x86, 0x84, 0xbe, 0x58, 0x86, 0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf];
    assert_eq!(fields(&mut decoder, &second).unwrap(), [&pseudo[..], &["cache-control: no-cache"]].concat());
    // The encoder writes the same.
    let mut encoder = Encoder::default();
    for (block, more) in [(&first[..], None), (&second[..], Some(("cache-control", "no-cache")))] {
        let mut written = Vec::new();
        encoder.begin(&mut written);
        let list =
            [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
        for (name, value) in list.into_iter().chain(more) {
            encoder.field(&mut written, name.as_bytes(), value.as_bytes());
        }
        assert_eq!(written, block);
    }
}

/// RFC 7541, C.6.1: a response with a table of 256 bytes.
#[test]
fn the_example_of_a_response() {
    let block = [
        0x48, 0x82, 0x64, 0x02, 0x58, 0x85, 0xae, 0xc3, 0x77, 0x1a, 0x4b, 0x61, 0x96, 0xd0, 0x7a, 0xbe, 0x94,
        0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b, 0x81, 0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b,
        0xff, 0x6e, 0x91, 0x9d, 0x29, 0xad, 0x17, 0x18, 0x63, 0xc7, 0x8f, 0x0b, 0x97, 0xc8, 0xe9, 0xae, 0x82,
        0xae, 0x43, 0xd3,
    ];
    assert_eq!(
        fields(&mut Decoder::new(256), &block).unwrap(),
        [
            ":status: 302",
            "cache-control: private",
            "date: Mon, 21 Oct 2013 20:13:21 GMT",
            "location: https://www.example.com"
        ]
    );
}

#[test]
fn the_table_keeps_its_size() {
    let mut decoder = Decoder::new(100);
    for value in ["1", "2", "3"] {
        fields(&mut decoder, &[b"\x40\x01a\x01", value.as_bytes()].concat()).unwrap();
    }
    assert_eq!(fields(&mut decoder, &[0xbe, 0xbf]).unwrap(), ["a: 3", "a: 2"]);
    assert_eq!(fields(&mut decoder, &[0xc0]), Err(BadBlock), "evicted");
    assert_eq!(fields(&mut decoder, b"\x20").unwrap(), [""; 0], "emptied");
    assert_eq!(fields(&mut decoder, &[0xbe]), Err(BadBlock));
    let large = [b"\x3f\x45\x40\x01a\x7f\x01".as_slice(), &[b'x'; 128]].concat();
    assert_eq!(fields(&mut decoder, &large).unwrap().len(), 1);
    assert_eq!(fields(&mut decoder, &[0xbe]), Err(BadBlock), "too large for the table");
}

#[test]
fn what_is_no_block() {
    for bad in [
        b"\x80".as_slice(),
        b"\xff\x80\x80\x80\x80\x80\x01",
        b"\xfe",
        b"\x82\x20",
        b"\x3f\xe2\x1f",
        b"\x00\x01",
        b"\x00\x01a\x05b",
        b"\x40\x81\xff\x01a",
        b"\x7f",
    ] {
        assert_eq!(fields(&mut Decoder::new(4096), bad), Err(BadBlock), "{bad:x?}");
    }
}

#[test]
fn integers() {
    for (value, prefix_bits) in
        [(0, 5), (10, 5), (30, 5), (31, 5), (1337, 5), (127, 7), (1 << 20, 4), (254, 8)]
    {
        let mut block = Vec::new();
        append_integer(&mut block, 0, prefix_bits, value);
        assert_eq!(integer(&mut &block[..], prefix_bits), Ok(value));
    }
    let mut example = Vec::new();
    append_integer(&mut example, 0, 5, 1337);
    assert_eq!(example, [0x1f, 0x9a, 0x0a], "RFC 7541, C.1.2");
}

#[test]
fn the_peer_chooses_the_table() {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::new(4096));
    let mut exchange = |sizes: &[usize], expected_start: &[u8]| {
        sizes.iter().for_each(|bytes| encoder.allow(*bytes));
        let mut block = Vec::new();
        encoder.begin(&mut block);
        assert_eq!(block, expected_start);
        encoder.field(&mut block, b"server", b"x");
        assert_eq!(fields(&mut decoder, &block).unwrap(), ["server: x"]);
        block.len() - expected_start.len()
    };
    assert!(exchange(&[], &[]) > 1);
    assert_eq!(exchange(&[4096, 100_000], &[]), 1);
    assert!(exchange(&[0], &[0x20]) > 1, "no table");
    assert!(exchange(&[], &[]) > 1);
    assert!(exchange(&[4096], &[0x3f, 0xe1, 0x1f]) > 1);
    assert!(exchange(&[0, 4096], &[0x20, 0x3f, 0xe1, 0x1f]) > 1, "emptied meanwhile");
    assert_eq!(exchange(&[], &[]), 1);
}

#[test]
fn what_is_secret_stays_out_of_tables() {
    let mut encoder = Encoder::default();
    for (name, first) in [("set-cookie", 0x1f), ("etag", 0x0f), ("x", 0x40)] {
        let mut block = Vec::new();
        encoder.field(&mut block, name.as_bytes(), b"v");
        assert_eq!(block[0], first, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    /// Whatever is encoded is decoded, over changes of the table's size.
    #[test]
    fn what_is_encoded_is_decoded(
        messages in proptest::collection::vec(
            (
                proptest::option::of(0_usize..6000),
                proptest::collection::vec(("(server|date|x-[a-c]|etag|content-type|:path|set-cookie|[a-z]{1,40})", "[ -~]{0,60}"), 0..12),
            ),
            1..=MESSAGES_MAX,
        ),
    ) {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::new(TABLE_BYTES));
        for (resize, list) in messages {
            if let Some(bytes) = resize {
                encoder.allow(bytes);
            }
            let mut block = Vec::new();
            encoder.begin(&mut block);
            for (name, value) in &list {
                encoder.field(&mut block, name.as_bytes(), value.as_bytes());
            }
            let expected: Vec<_> = list.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            prop_assert_eq!(fields(&mut decoder, &block), Ok(expected.clone()));
            let mut prepared = Prepared::default();
            if list.iter().all(|(name, value)| prepared.add(name.as_bytes(), value.as_bytes())) {
                let mut again = Vec::new();
                encoder.begin(&mut again);
                encoder.prepared(&mut again, &prepared);
                prop_assert_eq!(fields(&mut decoder, &again), Ok(expected));
            }
        }
    }

    /// Another implementation reads what this one writes, and the other way round.
    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    fn the_other_implementation_agrees(
        messages in proptest::collection::vec(
            proptest::collection::vec(("(:path|server|accept-encoding|x-[a-c]|etag|set-cookie|[a-z]{1,40})", "([ -~]{0,60}|gzip, deflate|/)"), 0..12),
            1..30,
        ),
    ) {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::new(TABLE_BYTES));
        let (mut other_encoder, mut other_decoder) = (loona_hpack::Encoder::new(), loona_hpack::Decoder::new());
        for list in messages {
            let list: Vec<_> = list.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            let mut block = Vec::new();
            encoder.begin(&mut block);
            list.iter().for_each(|(name, value)| encoder.field(&mut block, name, value));
            let decoded = other_decoder.decode(&block).map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
            let decoded: Vec<_> = decoded.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            prop_assert_eq!(&decoded, &list);
            let mut read = Vec::new();
            let block = other_encoder.encode(list.iter().copied());
            prop_assert_eq!(decoder.read(&block, |field| read.push((field.name.to_vec(), field.value.to_vec()))), Ok(()));
            let read: Vec<_> = read.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            prop_assert_eq!(&read, &list);
        }
    }

    /// What this implementation reads in any bytes, the other reads, too.
    #[test]
    fn any_bytes_are_refused_or_mean_the_same(
        blocks in proptest::collection::vec(proptest::collection::vec(prop_oneof![any::<u8>(), 0x80_u8..0xc4, 0x3e_u8..0x50], 0..20), 1..8),
    ) {
        let (mut decoder, mut other) = (Decoder::new(TABLE_BYTES), loona_hpack::Decoder::new());
        other.set_max_allowed_table_size(TABLE_BYTES);
        for block in blocks {
            let mut read = Vec::new();
            if decoder.read(&block, |field| read.push((field.name.to_vec(), field.value.to_vec()))).is_err() {
                return Ok(());
            }
            let decoded = match other.decode(&block) {
                Ok(decoded) => decoded,
                // It refuses a block without fields that changes the table's size.
                Err(_) if read.is_empty() => return Ok(()),
                Err(error) => return Err(TestCaseError::fail(format!("{error:?}"))),
            };
            let decoded: Vec<_> = decoded.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
            prop_assert_eq!(read, decoded);
        }
    }
}
