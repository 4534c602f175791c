//! Reads text files that people write (lists, configurations, users): UTF-8, with or without byte-order mark.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Some editors write U+FEFF at the start of a file; it means nothing in UTF-8.
const MARK: char = '\u{feff}';

/// The text of a file without a byte-order mark.
///
/// # Errors
/// If it cannot be read, or is not UTF-8.
pub fn read(path: &Path) -> io::Result<String> {
    let raw = fs::read(path)?;
    let is_utf_16 = raw.starts_with(&[0xff, 0xfe]) || raw.starts_with(&[0xfe, 0xff]);
    let mut text = String::from_utf8(raw).map_err(|_| {
        let what =
            if is_utf_16 { "it is text in UTF-16: save it as UTF-8" } else { "it is not text in UTF-8" };
        io::Error::new(ErrorKind::InvalidData, what)
    })?;
    if text.starts_with(MARK) {
        text.remove(0);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &[u8], expected: Result<&str, &str>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), raw).unwrap();
        let found = read(file.path()).map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn a_mark_is_left_out_and_other_encodings_are_named() {
        check(b"a = 1\n", Ok("a = 1\n"));
        check(b"\xef\xbb\xbfa = 1\n", Ok("a = 1\n"));
        check(b"", Ok(""));
        check(b"\xff\xfea\0", Err("it is text in UTF-16: save it as UTF-8"));
        check(b"caf\xe9", Err("it is not text in UTF-8"));
    }
}
