//! Tests of trace files: written traces are read back unchanged, and malformed bytes are refused.

use proptest::prelude::*;
use sojourn_workload::trace::{Document, Origin, Request, Session, Trace};
use sojourn_workload::trace_file::{TIME_NS_MAX, TraceFileError, TraceReader, WithoutFailed};

/// Traces of a few sessions with any values that the format allows.
fn any_trace() -> impl Strategy<Value = Trace> {
    let documents =
        proptest::collection::vec((".{0,20}", "[a-z.é]{0,9}", 0..=i64::MAX as u64, 0_u16..1000), 1..6);
    let time = || 0..=TIME_NS_MAX / 2;
    let origin = 1 - (TIME_NS_MAX as i64)..TIME_NS_MAX as i64;
    let requests = proptest::collection::vec((time(), any::<u32>()), 1..5);
    let sessions = proptest::collection::vec((time(), requests), 0..8);
    (documents, sessions, origin, any::<i32>()).prop_map(|(documents, mut sessions, unix_ns, offset)| {
        let mut trace = Trace { origin: Origin { unix_ns, utc_offset_seconds: offset }, ..Trace::default() };
        let document = |(name, host, size_bytes, status)| Document { name, host, size_bytes, status };
        trace.documents = documents.into_iter().map(document).collect();
        sessions.sort_by_key(|session| session.0);
        for (start_ns, mut requests) in sessions {
            requests.sort_unstable();
            let (first, count) = (trace.requests.len() as u32, requests.len() as u32);
            trace.sessions.push(Session { start_ns, first, count });
            let documents = trace.documents.len() as u32;
            let request = |(offset_ns, document)| Request { offset_ns, document: document % documents };
            trace.requests.extend(requests.into_iter().map(request));
        }
        trace
    })
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    trace.write(&mut bytes).unwrap();
    bytes
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(trace in any_trace()) {
        prop_assert_eq!(Trace::read(written(&trace).as_slice()).unwrap(), trace);
    }

    #[test]
    fn a_file_that_is_cut_is_truncated(trace in any_trace(), cut in any::<prop::sample::Index>()) {
        let bytes = written(&trace);
        let error = Trace::read(&bytes[..cut.index(bytes.len())]).unwrap_err();
        prop_assert!(matches!(error, TraceFileError::Truncated(_) | TraceFileError::NotATrace), "{}", error);
    }

    #[test]
    fn a_damaged_file_is_refused_or_a_sound_trace(
        trace in any_trace(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = written(&trace);
        let index = at.index(bytes.len());
        bytes[index] = byte;
        if let Ok(trace) = Trace::read(bytes.as_slice()) {
            trace.session_durations_ns();
            trace.requests_per_document();
            sojourn_workload::characterise::characterise(&trace);
        }
    }

    #[test]
    fn without_what_failed_sessions_are_sorted_by_what_is_left(trace in any_trace(), failed_of_ten in 0_usize..10) {
        let failed: Vec<bool> = (0..trace.documents.len()).map(|document| document % 10 < failed_of_ten).collect();
        let bytes = written(&trace);
        let (reader, _) = TraceReader::open(bytes.as_slice()).unwrap();
        let mut stream = WithoutFailed::new(reader, &failed);
        let mut streamed = Vec::new();
        while let Some(session) = stream.session().unwrap() {
            streamed.push(session);
        }
        let mut expected = Vec::new();
        for session in &trace.sessions {
            let is_got = |request: &&Request| !failed[request.document as usize];
            let got: Vec<_> = trace.requests_of(session).iter().filter(is_got).collect();
            let Some(first) = got.first() else { continue };
            let later_ns = first.offset_ns;
            let shifted = |request: &&Request| Request { offset_ns: request.offset_ns - later_ns, ..**request };
            expected.push((session.start_ns + later_ns, got.iter().map(shifted).collect::<Vec<_>>()));
        }
        expected.sort_by_key(|(start_ns, _)| *start_ns);
        prop_assert_eq!(streamed, expected);
    }

    #[test]
    fn any_bytes_after_the_magic_are_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Trace::read([b"SJTRACE3".as_slice(), &bytes].concat().as_slice());
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let trace = Trace {
        documents: vec![Document::got("/", 1)],
        sessions: vec![Session { start_ns: 0, first: 0, count: 1 }],
        requests: vec![Request { offset_ns: 0, document: 0 }],
        origin: Origin::default(),
        times: None,
    };
    let good = written(&trace);
    let check = |at: usize, bytes: &[u8], expected: &str| {
        let mut bad = good.clone();
        bad.splice(at..(at + bytes.len()).min(good.len()), bytes.iter().copied());
        let error = Trace::read(bad.as_slice()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(0, b"SJTRACE2", "another version (SJTRACE2, not SJTRACE3 or SJTRACE4): import its log again");
    check(0, b"SJTRACES", "does not begin with SJTRACE3");
    check(20, &u32::MAX.to_le_bytes(), "the count of documents");
    check(24, &2_u32.to_le_bytes(), "ends in the middle of its sessions");
    check(24, &0_u32.to_le_bytes(), "do not add up");
    check(28, &2_u32.to_le_bytes(), "do not add up");
    check(40, &1000_u16.to_le_bytes(), "the status of a document");
    check(42, &u16::MAX.to_le_bytes(), "the length of a host");
    check(44, &u32::MAX.to_le_bytes(), "the length of a name");
    check(48, &[0xff], "not UTF-8");
    check(56, &[0xff], "the start of a session");
    check(57, &0_u32.to_le_bytes(), "do not add up");
    check(69, &1_u32.to_le_bytes(), "a document that does not exist");
    check(good.len(), b"x", "has data after");
    let cut = Trace::read(&good[..good.len() - 1]).unwrap_err().to_string();
    assert!(cut.contains("ends in the middle of its requests"), "{cut}");
}
