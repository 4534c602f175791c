//! What must hold for any bytes given to the readers of CGI and FastCGI.

use std::collections::BTreeSet;

use sojourn_cgi::fastcgi::{Part, Reader, RecordError};
use sojourn_cgi::responder::{Request, RequestError, RequestReader};
use sojourn_cgi::{Application, Client, Ends, HeadError, read_head};
use sojourn_http::request::{Parsed, Parser};

/// The largest request body here.
const BODY_BYTES_MAX: usize = 64;

/// Records read the same whether they arrive whole or in pieces.
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

/// Servers' requests read the same whether they arrive whole or in pieces.
pub fn requests(bytes: &[u8]) {
    let whole = read_all(bytes, bytes.len().max(1));
    for step in [1, 7, 64] {
        assert_eq!(read_all(bytes, step), whole, "in pieces of {step}");
    }
}

/// The requests before the first error, and the error.
fn read_all(bytes: &[u8], step: usize) -> (Vec<Request>, Option<RequestError>) {
    let (mut reader, mut requests) = (RequestReader::new(BODY_BYTES_MAX), Vec::new());
    let mut pieces = bytes.chunks(step);
    let mut piece = pieces.next().unwrap_or_default();
    loop {
        match reader.read(piece) {
            Err(error) => return (requests, Some(error)),
            Ok(Some(request)) => {
                assert!(request.body.len() <= BODY_BYTES_MAX);
                requests.push(request);
                // The bytes so far may hold another one.
                piece = &[];
            }
            Ok(None) => match pieces.next() {
                Some(next) => piece = next,
                None => return (requests, None),
            },
        }
    }
}

/// A script's head ends at the same place however much has arrived after it, and its lines become complete.
pub fn response(bytes: &[u8]) {
    let mut fields = Vec::new();
    let outcome = read_head(bytes, &mut fields);
    match outcome {
        Ok(Some(head)) => {
            let length = head.length;
            assert!(length <= bytes.len() && fields.ends_with(b"\r\n"));
            let mut again = Vec::new();
            assert_eq!(read_head(&bytes[..length], &mut again), Ok(Some(head)));
            assert_eq!(again, fields);
            assert!(
                (length.saturating_sub(64)..length)
                    .all(|end| read_head(&bytes[..end], &mut Vec::new()) == Ok(None))
            );
        }
        Ok(None) | Err(HeadError::TooLong | HeadError::Empty | HeadError::Status) => {}
    }
}

/// Whatever a client requests, an application gets each variable once, and none that a client must not set.
pub fn environment(bytes: &[u8]) {
    let Ok(Parsed::Complete(request)) = Parser::default().parse(bytes) else { return };
    let php = Application {
        root: b"/srv".to_vec(),
        index: b"index.php".to_vec(),
        suffix: b".php".to_vec(),
        ..Application::default()
    };
    let client = Client {
        address: [127, 0, 0, 1].into(),
        ends: Ends { client_port: Some(1), server: None },
        is_secure: false,
        version: request.version,
    };
    let (mut names, mut file) = (BTreeSet::new(), Vec::new());
    let is_inside = php.variables_of(&request, client, |_| false, &mut |name: &[u8], value: &[&[u8]]| {
        assert!(name.iter().all(|byte| !byte.is_ascii_lowercase()) && !name.contains(&b'-'));
        assert!(names.insert(name.to_vec()), "each name once");
        if name == b"SCRIPT_FILENAME" {
            file = value.concat();
        }
    });
    assert_eq!(is_inside, !names.is_empty());
    assert!(!names.contains(&b"HTTP_PROXY"[..]) && !names.contains(&b"HTTP_CONTENT_LENGTH"[..]));
    let climbs = file.split(|byte| *byte == b'/').any(|segment| segment == b"..");
    assert!(!climbs && (!is_inside || file.starts_with(b"/srv/")));
}
