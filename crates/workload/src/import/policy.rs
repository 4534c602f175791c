//! Decides how an entry of the log counts.
//!
//! | entry | counts as |
//! |---|---|
//! | no target (`-`: a connection without a request) | skipped |
//! | a method other than GET and HEAD | skipped, or as GET (`as_get`) |
//! | a target with `?` | skipped: dynamic (seed IBM RC22629, 3.3); or like any other (`with_query`) |
//! | GET 200 or any other 2xx but 206, with a size | a request for the document (target, size) |
//! | the same without a size | skipped; 204 and 205 have no body and need none |
//! | HEAD 2xx, GET or HEAD 304 | a request for the document last seen under that name: its own size is not the document's; where the name first gets a size later, for that document; where it never does, skipped |
//! | GET 206 | skipped: its size is the range's; or kept as failed (`failed`) |
//! | any other status | skipped: failed or redirected; or kept, marked with its status (`failed`) |
//!
//! An aborted transfer is logged as 200 with the bytes that were sent (nginx: 499), so it counts as a
//! document of its own, as do dynamic answers without a query: that is the price of (target, size) as the
//! key.

use super::entry::Entry;

/// Entries to keep besides successful GET and HEAD of static documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Requests that did not get a whole document, marked with their status.
    pub failed: bool,
    pub with_query: bool,
    /// Requests of other methods, as if they were GET: a log has no bodies to send.
    pub as_get: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A request for the document of the entry's target and [`body_bytes`].
    Sized,
    /// A request for the target's last document.
    ByName,
    /// A request that got its status instead of a document.
    Failed,
    /// Not a request that can be replayed.
    Skip(Reason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No request line was sent.
    WithoutTarget,
    OtherMethod,
    /// Dynamic: the target has a query.
    WithQuery,
    /// Neither 2xx nor 304.
    Partial,
    /// Neither 2xx nor 304.
    Failed,
    WithoutSize,
}

pub fn judge(entry: &Entry<'_>, keep: Keep) -> Verdict {
    let is_head = &*entry.method == b"HEAD";
    if entry.target.is_empty() {
        Verdict::Skip(Reason::WithoutTarget)
    } else if !is_head && &*entry.method != b"GET" && !keep.as_get {
        Verdict::Skip(Reason::OtherMethod)
    } else if !keep.with_query && memchr::memchr(b'?', &entry.target).is_some() {
        Verdict::Skip(Reason::WithQuery)
    } else {
        match (entry.status, body_bytes(entry.status, entry.size_bytes)) {
            (status, _) if takes_by_name(status, is_head) => Verdict::ByName,
            (status, Some(_)) if is_whole(status) => Verdict::Sized,
            (status, None) if is_whole(status) => Verdict::Skip(Reason::WithoutSize),
            _ if keep.failed => Verdict::Failed,
            (206, _) => Verdict::Skip(Reason::Partial),
            _ => Verdict::Skip(Reason::Failed),
        }
    }
}

/// Returns true for a status of a complete response (RFC 9110, 15.3); 206 is a part of one.
pub fn is_whole(status: u16) -> bool {
    matches!(status, 200..=299) && status != 206
}

/// Returns true for responses without a body, whose size is not the document's.
pub fn takes_by_name(status: u16, is_head: bool) -> bool {
    status == 304 || is_head && is_whole(status)
}

/// The size of the body; RFC 9110, 15.3.5 and 15.3.6: 204 and 205 have none.
pub fn body_bytes(status: u16, size_bytes: Option<u64>) -> Option<u64> {
    size_bytes.or(matches!(status, 204 | 205).then_some(0))
}

#[cfg(test)]
mod tests {
    use super::super::clf;
    use super::*;

    fn check_keeping(keep: Keep, request_and_answer: &str, expected: Verdict) {
        let line = format!("host - - [10/Oct/2000:13:55:36 -0700] {request_and_answer}");
        assert_eq!(judge(&clf::parse(line.as_bytes()).unwrap(), keep), expected, "{line}");
    }

    fn check(request_and_answer: &str, expected: Verdict) {
        check_keeping(Keep::default(), request_and_answer, expected);
    }

    #[test]
    fn every_row_of_the_table() {
        check(r#""-" 408 -"#, Verdict::Skip(Reason::WithoutTarget));
        check(r#""POST /form HTTP/1.0" 200 12"#, Verdict::Skip(Reason::OtherMethod));
        check(r#""GET /find?q=x HTTP/1.0" 200 12"#, Verdict::Skip(Reason::WithQuery));
        check(r#""GET /a HTTP/1.0" 200 12"#, Verdict::Sized);
        check(r#""GET /a HTTP/1.0" 200 0"#, Verdict::Sized);
        check(r#""GET /a HTTP/1.0" 200 -"#, Verdict::Sized);
        check(r#""GET /a HTTP/1.0" 201 7"#, Verdict::Sized);
        check(r#""GET /a HTTP/1.0" 203 7"#, Verdict::Sized);
        check(r#""HEAD /a HTTP/1.0" 204 -"#, Verdict::ByName);
        check(r#""HEAD /a HTTP/1.0" 200 0"#, Verdict::ByName);
        check(r#""GET /a HTTP/1.0" 304 -"#, Verdict::ByName);
        check(r#""GET /a HTTP/1.0" 206 5"#, Verdict::Skip(Reason::Partial));
        check(r#""GET /a HTTP/1.0" 404 5"#, Verdict::Skip(Reason::Failed));
        check(r#""GET /a HTTP/1.0" 301 5"#, Verdict::Skip(Reason::Failed));
    }

    #[test]
    fn an_answer_whose_size_is_unknown_is_no_document() {
        let line = br#"host - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 5"#;
        let check = |status, expected| {
            let entry = Entry { status, size_bytes: None, ..clf::parse(line).unwrap() };
            assert_eq!(judge(&entry, Keep::default()), expected, "{status}");
        };
        check(200, Verdict::Skip(Reason::WithoutSize));
        check(204, Verdict::Sized);
        assert_eq!(
            [body_bytes(204, None), body_bytes(200, None), body_bytes(200, Some(7))],
            [Some(0), None, Some(7)]
        );
    }

    #[test]
    fn what_is_to_be_kept_is_kept() {
        let failed = Keep { failed: true, ..Keep::default() };
        check_keeping(failed, r#""GET /a HTTP/1.0" 404 5"#, Verdict::Failed);
        check_keeping(failed, r#""GET /a HTTP/1.0" 206 5"#, Verdict::Failed);
        check_keeping(failed, r#""GET /a HTTP/1.0" 304 -"#, Verdict::ByName);
        check_keeping(failed, r#""POST /a HTTP/1.0" 500 5"#, Verdict::Skip(Reason::OtherMethod));
        let with_query = Keep { with_query: true, ..Keep::default() };
        check_keeping(with_query, r#""GET /a?q HTTP/1.0" 200 5"#, Verdict::Sized);
        let as_get = Keep { as_get: true, ..Keep::default() };
        check_keeping(as_get, r#""POST /a HTTP/1.0" 200 5"#, Verdict::Sized);
        check_keeping(as_get, r#""PUT /a HTTP/1.0" 201 5"#, Verdict::Sized);
    }
}
