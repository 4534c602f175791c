//! What must hold for any bytes given to the parsers of RTSP, RTP and RTCP.

use sojourn_media::rtp::{HEADER_BYTES, Header, rtcp};
use sojourn_media::rtsp::{
    Command, Message, NptRange, ParseError, Parsed, Parser, Target, Transport, track_infos,
};

/// Whether the bytes arrive whole or in pieces, the messages of a connection are the same up to the first refused one;
/// whatever is in their fields is parsed or refused.
pub fn stream(bytes: &[u8]) {
    let whole = messages(bytes, bytes.len().max(1));
    for step in [1, 3, 100] {
        assert_eq!(messages(bytes, step), whole, "in pieces of {step}");
    }
}

/// The ends of the messages, and the refusal that ends the connection.
fn messages(bytes: &[u8], step: usize) -> (Vec<usize>, Option<ParseError>) {
    let (mut ends, mut start, mut parser) = (Vec::new(), 0, Parser::default());
    for end in (step..bytes.len()).step_by(step).chain([bytes.len()]) {
        loop {
            match parser.parse(&bytes[start..end]) {
                Ok(Parsed::Partial) => break,
                Ok(Parsed::Complete(message, length)) => {
                    assert!(length > 0 && start + length <= end);
                    understand(&message);
                    start += length;
                    ends.push(start);
                }
                Err(error) => return (ends, Some(error)),
            }
        }
    }
    (ends, None)
}

fn understand(message: &Message<'_>) {
    let fields = match message {
        Message::Request(request) => {
            let _ = (Command::parse(request), request.session());
            if let Ok(target) = Target::parse(request.target) {
                assert!(request.target.starts_with(target.url) && !target.path.is_empty());
            }
            request.fields
        }
        Message::Response(response) => {
            let _ = (response.sequence(), response.session());
            response.fields
        }
        Message::Interleaved(data) => return datagram(data.payload),
    };
    for (_, value) in fields.iter() {
        // What was parsed can be written, and then parses to the same.
        if let Ok(range) = NptRange::parse(value) {
            assert!(NptRange::parse(&range.to_string()).is_ok(), "{range}");
        }
        for transport in Transport::parse_all(value).into_iter().flatten() {
            if transport.destination.is_none() {
                assert_eq!(Transport::parse_all(&transport.to_string()).as_deref(), Ok(&[transport][..]));
            }
        }
        assert!(track_infos(value).count() <= value.len());
    }
}

/// A datagram is RTP, RTCP or neither; no byte outside it is read.
pub fn datagram(bytes: &[u8]) {
    if let Ok((header, payload)) = Header::parse(bytes) {
        assert!(payload.len() + HEADER_BYTES <= bytes.len());
        let again = [&header.bytes()[..], payload].concat();
        assert_eq!(Header::parse(&again), Ok((header, payload)));
    }
    for packet in rtcp::packets(bytes).flatten() {
        if let rtcp::Packet::Sender(_, receptions) | rtcp::Packet::Receiver { receptions, .. } = packet {
            let mut again = Vec::new();
            rtcp::append_receiver_report(&mut again, 1, &receptions);
            let read = rtcp::packets(&again).next();
            let Some(Ok(rtcp::Packet::Receiver { source: 1, receptions: read })) = read else {
                panic!("{again:?}")
            };
            assert_eq!(read, receptions);
        }
    }
}
