//! What must hold for any bytes given to the readers of CGI and FastCGI.

use std::collections::BTreeSet;

use sojourn_cgi::fastcgi::{Part, Reader, RecordError};
use sojourn_cgi::{Application, Client, HeadError, http_head};
use sojourn_http::request::{Parsed, Parser};

/// Arrived whole or in pieces, records say the same.
pub fn records(bytes: &[u8]) {
    let whole = read(bytes, bytes.len().max(1));
    for step in [1, 7, 64] {
        assert_eq!(read(bytes, step), whole, "in pieces of {step}");
    }
    assert!(whole.output.len() + whole.errors.len() <= bytes.len());
}

#[derive(Debug, Default, PartialEq)]
struct Said {
    output: Vec<u8>,
    errors: Vec<u8>,
    ends: usize,
    error: Option<RecordError>,
}

fn read(bytes: &[u8], step: usize) -> Said {
    let (mut reader, mut said) = (Reader::default(), Said::default());
    for piece in bytes.chunks(step) {
        let outcome = reader.read(piece, |part| match part {
            Part::Output(bytes) => said.output.extend_from_slice(bytes),
            Part::Error(bytes) => said.errors.extend_from_slice(bytes),
            Part::End(_) => said.ends += 1,
        });
        if let Err(error) = outcome {
            said.error = Some(error);
            break;
        }
    }
    assert!(said.ends <= 1, "one request, one end");
    assert!(!reader.is_at_rest() || said.ends == 1);
    said
}

/// A script's head is found at the same place however much has come behind it, and becomes one whose lines are whole.
pub fn response(bytes: &[u8]) {
    let mut head = Vec::new();
    let outcome = http_head(bytes, &mut head);
    match outcome {
        Ok(Some(length)) => {
            assert!(length <= bytes.len());
            assert!(head.starts_with(b"HTTP/1.1 ") && head.ends_with(b"\r\n\r\n"));
            let mut again = Vec::new();
            assert_eq!(http_head(&bytes[..length], &mut again), Ok(Some(length)));
            assert_eq!(again, head);
            assert!(
                (length.saturating_sub(64)..length)
                    .all(|end| http_head(&bytes[..end], &mut Vec::new()) == Ok(None))
            );
        }
        Ok(None) => assert!(head.is_empty()),
        Err(HeadError::TooLong | HeadError::Empty | HeadError::Status) => {}
    }
}

/// Whatever a client asks for, an application gets each variable once, and none that a client must not set.
pub fn environment(bytes: &[u8]) {
    let Ok(Parsed::Complete(request)) = Parser::default().parse(bytes) else { return };
    let php = Application {
        root: b"/srv".to_vec(),
        index: b"index.php".to_vec(),
        suffix: b".php".to_vec(),
        ..Application::default()
    };
    let client = Client { address: [127, 0, 0, 1].into(), is_secure: false };
    let (mut names, mut file) = (BTreeSet::new(), Vec::new());
    let is_inside = php.variables_of(&request, client, |name, value| {
        assert!(name.iter().all(|byte| !byte.is_ascii_lowercase()) && !name.contains(&b'-'));
        assert!(names.insert(name.to_vec()), "each name once");
        if name == b"SCRIPT_FILENAME" {
            file = value.to_vec();
        }
    });
    assert_eq!(is_inside, !names.is_empty());
    assert!(!names.contains(&b"HTTP_PROXY"[..]) && !names.contains(&b"HTTP_CONTENT_LENGTH"[..]));
    let climbs = file.split(|byte| *byte == b'/').any(|segment| segment == b"..");
    assert!(!climbs && (!is_inside || file.starts_with(b"/srv/")));
}
