//! What an entry of the log counts as.
//!
//! | entry | counts as |
//! |---|---|
//! | no target (`-`: a connection without a request) | skipped |
//! | a method other than GET and HEAD | skipped, or as GET (`as_get`) |
//! | a target with `?` | skipped: dynamic (seed IBM RC22629, 3.3); or like any other (`with_query`) |
//! | GET 200 with a size | a request for the document (target, size) |
//! | GET 200 without a size | skipped |
//! | HEAD 200, GET or HEAD 304 | a request for the document last seen under that name: its own size is not the document's; where the name first gets a size later, for that document; where it never does, skipped |
//! | 206 | skipped: its size is the range's; or kept as failed (`failed`) |
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
    /// A request for the document of this size under the entry's target.
    Sized(u64),
    /// A request for whatever the target was last.
    ByName,
    /// A request that got this status instead of a document.
    Failed(u16),
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
    /// 206.
    Partial,
    /// Neither 200, 206 nor 304.
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
        match (entry.status, entry.size_bytes) {
            (304, _) => Verdict::ByName,
            (200, _) if is_head => Verdict::ByName,
            (200, Some(size_bytes)) => Verdict::Sized(size_bytes),
            (200, None) => Verdict::Skip(Reason::WithoutSize),
            (status, _) if keep.failed => Verdict::Failed(status),
            (206, _) => Verdict::Skip(Reason::Partial),
            _ => Verdict::Skip(Reason::Failed),
        }
    }
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
        check(r#""GET /a HTTP/1.0" 200 12"#, Verdict::Sized(12));
        check(r#""GET /a HTTP/1.0" 200 0"#, Verdict::Sized(0));
        check(r#""GET /a HTTP/1.0" 200 -"#, Verdict::Skip(Reason::WithoutSize));
        check(r#""HEAD /a HTTP/1.0" 200 0"#, Verdict::ByName);
        check(r#""GET /a HTTP/1.0" 304 -"#, Verdict::ByName);
        check(r#""GET /a HTTP/1.0" 206 5"#, Verdict::Skip(Reason::Partial));
        check(r#""GET /a HTTP/1.0" 404 5"#, Verdict::Skip(Reason::Failed));
        check(r#""GET /a HTTP/1.0" 301 5"#, Verdict::Skip(Reason::Failed));
    }
    #[test]
    fn what_is_to_be_kept_is_kept() {
        let failed = Keep { failed: true, ..Keep::default() };
        check_keeping(failed, r#""GET /a HTTP/1.0" 404 5"#, Verdict::Failed(404));
        check_keeping(failed, r#""GET /a HTTP/1.0" 206 5"#, Verdict::Failed(206));
        check_keeping(failed, r#""GET /a HTTP/1.0" 304 -"#, Verdict::ByName);
        check_keeping(failed, r#""POST /a HTTP/1.0" 500 5"#, Verdict::Skip(Reason::OtherMethod));
        let with_query = Keep { with_query: true, ..Keep::default() };
        check_keeping(with_query, r#""GET /a?q HTTP/1.0" 200 5"#, Verdict::Sized(5));
        let as_get = Keep { as_get: true, ..Keep::default() };
        check_keeping(as_get, r#""POST /a HTTP/1.0" 200 5"#, Verdict::Sized(5));
    }
}
