//! WebStone file lists: `URL weight #bytes` per line, with any sum of weights.

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The path, with a leading slash.
    pub path: String,
    /// How often it is chosen, relative to the sum of all weights.
    pub weight: u64,
    /// The size of its body, if given.
    pub size_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilelistError {
    #[error("line {line}: {text:?} is not `/path weight #bytes`")]
    Line { line: usize, text: String },
    #[error("the list names no document with a weight above zero")]
    Empty,
}

/// Parses a list; blank lines and lines that start with `#` are skipped.
pub fn parse(text: &str) -> Result<Vec<Entry>, FilelistError> {
    let mut entries = Vec::new();
    for (index, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let refused = || FilelistError::Line { line: index + 1, text: line.to_owned() };
        entries.push(entry(line).ok_or_else(refused)?);
    }
    let total: u64 = entries.iter().map(|entry| entry.weight).sum();
    if total == 0 { Err(FilelistError::Empty) } else { Ok(entries) }
}

fn entry(line: &str) -> Option<Entry> {
    let mut fields = line.split_ascii_whitespace();
    let path = fields.next().filter(|path| path.starts_with('/') && path.is_ascii())?.to_owned();
    // Bounded so that the sum of weights cannot overflow.
    let weight = u64::from(fields.next()?.parse::<u32>().ok()?);
    let size_bytes = match fields.next() {
        None => None,
        Some(comment) => Some(comment.strip_prefix('#')?.parse().ok()?),
    };
    Some(Entry { path, weight, size_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_list_of_webstone() {
        let entries = parse(crate::statistics::webstone::FILELIST).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.weight).sum::<u64>(), 1000);
        let mean = entries.iter().map(|entry| entry.weight * entry.size_bytes.unwrap()).sum::<u64>() / 1000;
        assert_eq!(mean, 19_773);
    }

    #[test]
    fn sizes_are_optional_and_comments_are_skipped() {
        let entries = parse("# mine\n\n/a 1\n\t/b\t0 #7\n").unwrap();
        assert_eq!(entries[0], Entry { path: "/a".into(), weight: 1, size_bytes: None });
        assert_eq!(entries[1], Entry { path: "/b".into(), weight: 0, size_bytes: Some(7) });
    }

    #[test]
    fn refusals_name_the_line() {
        for bad in ["a 1", "/a", "/a x", "/a -1", "/a 1 7", "/a 1 #x", "/a 99999999999"] {
            let expected = FilelistError::Line { line: 2, text: bad.into() };
            assert_eq!(parse(&format!("/ok 1\n{bad}\n")), Err(expected));
        }
        assert_eq!(parse("# nothing\n"), Err(FilelistError::Empty));
        assert_eq!(parse("/a 0\n"), Err(FilelistError::Empty));
    }
}
