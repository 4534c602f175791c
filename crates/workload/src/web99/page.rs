//! The pages that an application makes of a file, and the lines of the log of what was posted.

use super::advertisements::Shown;
use super::requests::{FileName, SHOWN_COOKIE, VISITOR_COOKIE, Visitor};

/// Bytes of each record of the log, so that the number of records is known from its length.
pub const RECORD_BYTES: usize = 128;

/// The server and the client that a page names.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    pub software: &'a str,
    pub client: &'a str,
    pub script: &'a str,
    pub query: &'a str,
}

/// A page around a file's content, with an advertisement if one is shown: the bytes before and behind it.
pub fn around(setting: &Setting<'_>, file: FileName, shown: Option<Shown>) -> (String, &'static str) {
    let Setting { software, client, script, query } = setting;
    let advertisement = shown.map(|shown| {
        // An advertisement's picture is a file of the set.
        let picture =
            FileName { directory: shown.advertisement / 36, class: 1, file: shown.advertisement % 9 };
        format!("<p><img src=\"{picture}\" alt=\"advertisement {}\"></p>\n", shown.advertisement)
    });
    let head = format!(
        "<!DOCTYPE html>\n<title>{file}</title>\n<p>{software} for {client} by {script}: {query}</p>\n{}<pre>\n",
        advertisement.unwrap_or_default()
    );
    (head, "\n</pre>\n")
}

/// The value of the Set-Cookie field that tells which advertisement was shown.
pub fn shown_cookie(shown: Shown) -> String {
    let Shown { advertisement, weight, is_expired } = shown;
    format!("{SHOWN_COOKIE}=ad={advertisement:03}&weight={weight}&expired={}", u8::from(is_expired))
}

/// The value of the Set-Cookie field that answers a form.
pub fn visitor_cookie(visitor: Visitor) -> String {
    format!("{VISITOR_COOKIE}=user={}&last={:03}", visitor.user, visitor.last)
}

/// A record of the log: its number, when it was posted and by which process, the file, the client, the visitor.
pub fn record(
    number: u64,
    second: u64,
    process: u32,
    file: FileName,
    client: u32,
    visitor: Visitor,
) -> String {
    let path = file.to_string();
    let Visitor { user, last } = visitor;
    let text = format!("{number:10} {second:10} {process:10} {path:40} {client:10} {user:10} {last:10}");
    let width = RECORD_BYTES - 1;
    format!("{text:width$.width$}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_of_one_length() {
        let file = FileName { directory: u32::MAX, class: 3, file: 8 };
        let visitor = Visitor { user: u32::MAX, last: u32::MAX };
        let longest = record(u64::MAX, u64::MAX, u32::MAX, file, u32::MAX, visitor);
        let first =
            record(1, 2, 3, FileName { directory: 1, class: 0, file: 0 }, 4, Visitor { user: 5, last: 6 });
        assert_eq!((longest.len(), first.len()), (RECORD_BYTES, RECORD_BYTES));
        let fields: Vec<&str> = first.split_whitespace().collect();
        assert_eq!(fields, ["1", "2", "3", "/file_set/dir00001/class0_0", "4", "5", "6"]);
    }

    #[test]
    fn pages_show_advertisements() {
        let setting = Setting { software: "S", client: "::1", script: "/web99", query: "q" };
        let file = FileName { directory: 1, class: 1, file: 2 };
        let shown = Shown { advertisement: 37, weight: 3, is_expired: false };
        assert!(around(&setting, file, Some(shown)).0.contains("src=\"/file_set/dir00001/class1_1\""));
        assert!(!around(&setting, file, None).0.contains("img"));
        assert_eq!(shown_cookie(shown), "shown=ad=037&weight=3&expired=0");
    }
}
