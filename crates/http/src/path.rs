//! Turns a request target into a path inside the site, or refuses it.
//!
//! A [`SitePath`] is relative, decoded and free of `.`, `..`, empty segments and NUL, so joining it to the root
//! can never leave the root (symbolic links are the origin's concern). Most targets are already in this form
//! and are borrowed; the others are rewritten. An encoded slash separates like a plain one; a backslash is an
//! ordinary character, as it is to the file system.

use std::borrow::Cow;

/// Why a target names no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Does not begin with a slash: an asterisk or an authority.
    #[error("the request target does not begin with a slash")]
    NoSlash,
    /// `%` without two hexadecimal digits.
    #[error("the request target has a bad percent escape")]
    Escape,
    /// Contains a NUL byte, plain or as `%00`.
    #[error("the request target has a NUL byte")]
    Nul,
    /// More `..` than segments before it.
    #[error("the request target climbs above the root")]
    AboveRoot,
}

/// A path inside the site: `""` is the root, a trailing slash names a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SitePath<'a>(Cow<'a, [u8]>);

impl<'a> SitePath<'a> {
    /// The path of a request target; the query is left out.
    pub fn decode(target: &'a [u8]) -> Result<SitePath<'a>, PathError> {
        let rest = match target {
            [b'/', rest @ ..] => rest,
            // An absolute target with an empty path and a query.
            [b'?', ..] => target,
            _ => return Err(PathError::NoSlash),
        };
        let mut after_slash = true;
        for (index, byte) in rest.iter().enumerate() {
            match byte {
                b'?' => return Ok(SitePath(Cow::Borrowed(&rest[..index]))),
                b'%' | 0 => return rewrite(rest),
                b'/' | b'.' if after_slash => return rewrite(rest),
                _ => after_slash = *byte == b'/',
            }
        }
        Ok(SitePath(Cow::Borrowed(rest)))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if the path can only name a directory.
    pub fn is_directory(&self) -> bool {
        self.0.is_empty() || self.0.ends_with(b"/")
    }

    /// Returns true if a segment begins with a dot, as in `.git`: such files are rarely meant to be public.
    pub fn is_hidden(&self) -> bool {
        self.0
            .split(|byte| *byte == b'/')
            .any(|segment| segment.starts_with(b".") && segment != b".well-known")
    }

    /// The path up to the last slash and the name after it; `None` without a slash.
    pub fn split_last(&self) -> Option<(SitePath<'_>, &[u8])> {
        let slash = self.0.iter().rposition(|byte| *byte == b'/')?;
        Some((SitePath(Cow::Borrowed(&self.0[..slash])), &self.0[slash + 1..]))
    }

    pub fn into_owned(self) -> SitePath<'static> {
        SitePath(Cow::Owned(self.0.into_owned()))
    }

    /// The Location that redirects to this directory: percent-encoded, with a trailing slash. It cannot begin with `//`
    /// and name another host, because segments are never empty.
    pub fn directory_location(&self) -> String {
        let mut location = String::with_capacity(self.0.len() + 2);
        location.push('/');
        percent_encode(&self.0, &mut location);
        if !location.ends_with('/') {
            location.push('/');
        }
        location
    }
}

/// Appends `path`, percent-encoding all bytes but slashes and unreserved characters (RFC 3986, 2.3).
pub fn percent_encode(path: &[u8], uri: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in path {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(*byte));
            }
            _ => {
                let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
                uri.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
}

/// The slow path: decodes escapes, then removes dot segments (RFC 3986, 5.2.4), but refuses `..` above the root.
fn rewrite(rest: &[u8]) -> Result<SitePath<'static>, PathError> {
    let raw = rest.split(|byte| *byte == b'?').next().unwrap_or_default();
    let decoded = percent_decode(raw)?;
    let mut path: Vec<u8> = Vec::with_capacity(decoded.len());
    let mut segments = decoded.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"" | b"." => {}
            b".." => {
                path.pop().ok_or(PathError::AboveRoot)?;
                let parent = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
                path.truncate(parent);
            }
            _ => {
                path.extend_from_slice(segment);
                if !last {
                    path.push(b'/');
                }
            }
        }
    }
    Ok(SitePath(Cow::Owned(path)))
}

/// Decodes the `%` escapes of `raw`.
///
/// # Errors
/// If an escape is malformed, or there is a NUL byte.
pub fn percent_decode(raw: &[u8]) -> Result<Vec<u8>, PathError> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'%' => {
                let (high, low) = (bytes.next().and_then(hex), bytes.next().and_then(hex));
                high.zip(low).map(|(high, low)| high << 4 | low).ok_or(PathError::Escape)?
            }
            plain => *plain,
        };
        if byte == 0 {
            return Err(PathError::Nul);
        }
        decoded.push(byte);
    }
    Ok(decoded)
}

fn hex(digit: &u8) -> Option<u8> {
    char::from(*digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(target: &str, expected: Result<&str, PathError>) {
        let path = SitePath::decode(target.as_bytes());
        let path =
            path.as_ref().map(|path| std::str::from_utf8(path.as_bytes()).unwrap()).map_err(|error| *error);
        assert_eq!(path, expected, "{target:?}");
    }

    #[test]
    fn plain_targets() {
        check("/", Ok(""));
        check("/index.html", Ok("index.html"));
        check("/a/b/?q=/../%00", Ok("a/b/"));
        check("?q=/../%00", Ok(""));
        check("/a b\\c", Ok("a b\\c"));
        check("/a%20b", Ok("a b"));
        check("/a%2fb%3fc", Ok("a/b?c"));
    }

    #[test]
    fn dot_segments_and_slashes() {
        check("//evil//dir", Ok("evil/dir"));
        check("/./a/./b/.", Ok("a/b/"));
        check("/a/b/../c", Ok("a/c"));
        check("/a/b/..", Ok("a/"));
        check("/a/..", Ok(""));
        check("/...", Ok("..."));
        check("/.hidden", Ok(".hidden"));
    }

    #[test]
    fn refusals() {
        check("*", Err(PathError::NoSlash));
        check("host:80", Err(PathError::NoSlash));
        for climbing in
            ["/..", "/../etc/passwd", "/a/../../b", "/%2e%2e/x", "/..%2fx", "/%2e%2e%2fx", "/a/%2E./../x"]
        {
            check(climbing, Err(PathError::AboveRoot));
        }
        for bad in ["/%", "/%2", "/%zz", "/%+1", "/%u002e"] {
            check(bad, Err(PathError::Escape));
        }
        check("/a%00.html", Err(PathError::Nul));
        check("/a\0", Err(PathError::Nul));
        check("/%252e%252e/x", Ok("%2e%2e/x"));
    }

    #[test]
    fn redirections_stay_here() {
        let location = |target: &str| SitePath::decode(target.as_bytes()).unwrap().directory_location();
        assert_eq!(location("//evil.example/dir"), "/evil.example/dir/");
        assert_eq!(location("/a%0d%0aX:y"), "/a%0D%0AX%3Ay/");
        assert_eq!(location("/"), "/");
    }

    proptest! {
        #[test]
        fn never_outside(target in proptest::collection::vec(any::<u8>(), 0..64)) {
            let target: Vec<u8> = [b"/".as_slice(), &target].concat();
            if let Ok(path) = SitePath::decode(&target) {
                prop_assert!(!path.as_bytes().starts_with(b"/"));
                for segment in path.as_bytes().split(|byte| *byte == b'/') {
                    prop_assert!(segment != b".." && segment != b".");
                }
                let again = path.directory_location();
                let directory = SitePath::decode(again.as_bytes()).unwrap();
                let trimmed = directory.as_bytes().strip_suffix(b"/").unwrap_or(directory.as_bytes());
                prop_assert_eq!(trimmed, path.as_bytes().strip_suffix(b"/").unwrap_or(path.as_bytes()));
            }
        }

        #[test]
        fn dots_and_slashes_never_climb(target in "[./%2eEfF\\\\a]{0,40}") {
            if let Ok(path) = SitePath::decode(format!("/{target}").as_bytes()) {
                prop_assert!(path.as_bytes().split(|byte| *byte == b'/').all(|segment| segment != b".."));
            }
        }
    }
}
