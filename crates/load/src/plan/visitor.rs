//! Visitors of a site that shows advertisements: who they are, and which one they saw last.
//!
//! Requests are prepared with digits in the visitor's place, which are overwritten as a request is sent: nothing is allocated
//! or formatted then.

use sojourn_workload::web99::requests::{FileName, SHOWN_COOKIE, VISITOR_COOKIE};

/// The visitors' numbers begin here, so that they all have as many digits.
const FIRST: u32 = 10_000;
/// So many visitors are told apart; then the first comes again.
const COUNT: u32 = 90_000;

const USER_DIGITS: usize = 5;
const LAST_DIGITS: usize = 3;
const CLIENT_DIGITS: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visitor {
    pub(crate) user: u32,
    /// The advertisement that it saw last.
    pub(crate) last: u32,
    /// The client's number, in forms.
    pub(crate) client: u32,
}

impl Visitor {
    pub(crate) fn of_client(number: u32) -> Visitor {
        Visitor { user: FIRST + number % COUNT, last: 0, client: number % 10_u32.pow(CLIENT_DIGITS as u32) }
    }

    /// Takes what the head of an answer says was shown. Returns false if it does not say.
    pub(crate) fn read_shown(&mut self, head: &[u8]) -> bool {
        let status_line = head.iter().position(|byte| *byte == b'\n').map_or(head.len(), |end| end + 1);
        let shown = sojourn_http::head::field_lines(&head[status_line..]).find_map(|(name, value)| {
            let rest = value.strip_prefix(SHOWN_COOKIE.as_bytes())?.strip_prefix(b"=ad=")?;
            let digits = name.eq_ignore_ascii_case(b"set-cookie").then(|| rest.get(..LAST_DIGITS))??;
            std::str::from_utf8(digits).ok()?.parse().ok()
        });
        self.last = shown.unwrap_or(self.last);
        shown.is_some()
    }
}

/// The field of a prepared request that names its visitor.
pub(crate) fn cookie() -> String {
    format!("Cookie: {VISITOR_COOKIE}=user={:0USER_DIGITS$}&last={:0LAST_DIGITS$}", 0, 0)
}

/// The form of a prepared request.
pub(crate) fn form_body(file: FileName) -> String {
    let FileName { directory, class, file } = file;
    format!("urlroot=/file_set&dir={directory:05}&class={class}&num={file}&client={:0CLIENT_DIGITS$}", 0)
}

/// Where a prepared request says which visitor makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VisitorForm {
    /// In its cookie; the answer says which advertisement was shown.
    ShownAdvertisement,
    /// In its cookie, and in the form that is its body.
    Posted,
}

impl VisitorForm {
    /// Writes a visitor to a prepared request.
    pub(crate) fn write(self, visitor: &Visitor, request: &mut [u8]) {
        let head = match self {
            VisitorForm::ShownAdvertisement => request.len() - b"\r\n".len(),
            VisitorForm::Posted => {
                digits(visitor.client, &mut request[..], CLIENT_DIGITS);
                let mark = request.windows(4).position(|bytes| bytes == b"\r\n\r\n");
                let head = mark.expect("a request has an end of its head");
                // Its last field is Content-Length.
                request[..head].iter().rposition(|byte| *byte == b'\n').map_or(head, |end| end + 1)
            }
        };
        let cookie = &mut request[..head - b"\r\n".len()];
        digits(visitor.last, cookie, LAST_DIGITS);
        let user = cookie.len() - LAST_DIGITS - b"&last=".len();
        digits(visitor.user, &mut cookie[..user], USER_DIGITS);
    }
}

/// Writes a number to the last so many bytes.
fn digits(number: u32, bytes: &mut [u8], count: usize) {
    let start = bytes.len() - count;
    let mut rest = number;
    for byte in bytes[start..].iter_mut().rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_shown_is_remembered() {
        let mut visitor = Visitor::of_client(100_003);
        assert_eq!(visitor, Visitor { user: 20_003, last: 0, client: 100_003 });
        assert!(
            visitor.read_shown(b"HTTP/1.1 200 OK\r\nset-cookie: shown=ad=123&weight=4&expired=0\r\n\r\n")
        );
        assert_eq!(visitor.last, 123);
        for other in ["Set-Cookie: shown=ad=1\r\n", "X: shown=ad=124\r\n", "Set-Cookie: a=b\r\n"] {
            assert!(!visitor.read_shown(format!("HTTP/1.1 200 OK\r\n{other}\r\n").as_bytes()), "{other}");
        }
        assert_eq!(visitor.last, 123);
    }
}
