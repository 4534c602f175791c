//! Media types by file name extension: the site's configuration, then the types of the web as they are
//! registered today, then a maintained table of everything else.
//!
//! Text types get a charset, except formats that declare their encoding themselves: the field would override the
//! document. Unknown extensions are `application/octet-stream`.

use std::collections::BTreeMap;

/// Types for which the maintained table is outdated or has no entry, sorted by extension.
const CURRENT: &[(&str, &str)] = &[
    ("br", "application/octet-stream"),
    ("cjs", "text/javascript"),
    ("java", "text/plain"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("map", "application/json"),
    ("mjs", "text/javascript"),
    ("ndjson", "application/x-ndjson"),
    ("otf", "font/otf"),
    ("rar", "application/vnd.rar"),
    ("rpm", "application/x-rpm"),
    ("tgz", "application/gzip"),
    ("toml", "application/toml"),
    ("topojson", "application/json"),
    ("ts", "video/mp2t"),
    ("usdz", "model/vnd.usdz+zip"),
    ("vcf", "text/vcard"),
    ("woff", "font/woff"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zst", "application/zstd"),
];

/// The type of unknown data.
pub const UNKNOWN: &str = "application/octet-stream";

/// The longest extension that is looked up.
pub const EXTENSION_BYTES_MAX: usize = 32;

/// Text formats that declare their encoding in the document.
const SELF_DESCRIBED: &[&str] = &["text/html", "text/xml"];

#[derive(Clone, Debug)]
pub struct MediaTypes {
    own: BTreeMap<Box<[u8]>, Box<str>>,
    charset: Option<Box<str>>,
}

impl Default for MediaTypes {
    /// The default types, with `charset=utf-8` for text.
    fn default() -> Self {
        MediaTypes { own: BTreeMap::new(), charset: Some("utf-8".into()) }
    }
}

impl MediaTypes {
    /// The default types, with `charset` (if any) for text. `own` maps extensions (lower case, no dot) to types that
    /// replace the defaults and are used unchanged.
    pub fn new(own: impl IntoIterator<Item = (String, String)>, charset: Option<&str>) -> MediaTypes {
        let row =
            |(extension, media_type): (String, String)| (extension.into_bytes().into(), media_type.into());
        MediaTypes { own: own.into_iter().map(row).collect(), charset: charset.map(Box::from) }
    }

    /// The media type of the file at `path`, with charset, as the value of Content-Type.
    pub fn of(&self, path: &[u8]) -> Box<str> {
        let media_type = self.bare(path);
        let is_own = self.own(path).is_some();
        match &self.charset {
            Some(charset)
                if !is_own && media_type.starts_with("text/") && !SELF_DESCRIBED.contains(&media_type) =>
            {
                format!("{media_type}; charset={charset}").into()
            }
            _ => media_type.into(),
        }
    }

    /// The media type of the file at `path` without the charset. It allocates nothing.
    pub fn bare(&self, path: &[u8]) -> &str {
        self.own(path).unwrap_or_else(|| usual(path))
    }

    fn own(&self, path: &[u8]) -> Option<&str> {
        let mut buffer = [0; EXTENSION_BYTES_MAX];
        self.own.get(extension(path, &mut buffer)?).map(|own| &**own)
    }
}

/// The extension of the file at `path`, in lower case and without the dot; empty if it is too long.
pub fn extension<'a>(path: &[u8], buffer: &'a mut [u8; EXTENSION_BYTES_MAX]) -> Option<&'a [u8]> {
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    let extension = &name[dot + 1..];
    let lower = buffer.get_mut(..extension.len()).filter(|lower| !lower.is_empty())?;
    lower.copy_from_slice(extension);
    lower.make_ascii_lowercase();
    Some(lower)
}

/// Returns true for types that usually compress well: text in one form or another.
pub fn compresses(media_type: &str) -> bool {
    let bare = media_type.split(';').next().unwrap_or_default().trim_ascii();
    let (kind, subtype) = bare.split_once('/').unwrap_or((bare, ""));
    let is_text = |name: &str| matches!(name, "json" | "xml" | "javascript" | "yaml" | "toml" | "wasm");
    kind == "text"
        || subtype.rsplit(['+', '-']).next().is_some_and(is_text)
        || matches!(
            bare,
            "font/ttf" | "font/otf" | "image/x-icon" | "image/bmp" | "model/obj" | "application/rtf"
        )
}

/// Returns true if `text` can stand in Content-Type: `type/subtype`, perhaps with parameters, in visible ASCII.
pub fn is_media_type(text: &str) -> bool {
    let (bare, parameters) = text.split_once(';').unwrap_or((text, ""));
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    bare.trim_ascii_end().split_once('/').is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype))
        && parameters.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

fn usual(path: &[u8]) -> &'static str {
    let mut buffer = [0; EXTENSION_BYTES_MAX];
    let Some(extension) = extension(path, &mut buffer) else { return UNKNOWN };
    if let Ok(row) = CURRENT.binary_search_by(|(known, _)| known.as_bytes().cmp(extension)) {
        return CURRENT[row].1;
    }
    let known = std::str::from_utf8(extension).ok().map(mime_guess::from_ext);
    known.and_then(|guess| guess.first_raw()).unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(types: &MediaTypes, rows: &[(&str, &str)]) {
        for (path, expected) in rows {
            assert_eq!(&*types.of(path.as_bytes()), *expected, "{path}");
        }
    }

    #[test]
    fn the_types_of_the_web() {
        assert!(CURRENT.is_sorted_by_key(|(extension, _)| *extension));
        let rows = [
            ("index.html", "text/html"),
            ("a.b/photo.JPG", "image/jpeg"),
            ("a.html/noext", UNKNOWN),
            ("archive.tar.gz", "application/gzip"),
            ("", UNKNOWN),
            ("dot.", UNKNOWN),
            (".gz", "application/gzip"),
            ("a.\u{e9}", UNKNOWN),
            ("a.css", "text/css; charset=utf-8"),
            ("a.csv", "text/csv; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.mjs", "text/javascript; charset=utf-8"),
            ("a.md", "text/markdown; charset=utf-8"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.json", "application/json"),
            ("a.xml", "application/xml"),
            ("a.svg", "image/svg+xml"),
            ("a.webp", "image/webp"),
            ("a.avif", "image/avif"),
            ("a.ico", "image/x-icon"),
            ("a.woff", "font/woff"),
            ("a.woff2", "font/woff2"),
            ("a.otf", "font/otf"),
            ("a.ttf", "font/ttf"),
            ("a.wasm", "application/wasm"),
            ("a.mp3", "audio/mpeg"),
            ("a.mp4", "video/mp4"),
            ("a.webm", "video/webm"),
            ("a.pdf", "application/pdf"),
            ("a.zip", "application/zip"),
            ("a.webmanifest", "application/manifest+json"),
            ("a.vtt", "text/vtt; charset=utf-8"),
            ("a.epub", "application/epub+zip"),
        ];
        check(&MediaTypes::default(), &rows);
        let long = format!("a.{}", "x".repeat(EXTENSION_BYTES_MAX + 1));
        check(&MediaTypes::default(), &[(&long, UNKNOWN)]);
    }

    #[test]
    fn the_owner_decides() {
        let own = [("html", "text/html; charset=latin1"), ("bar", "application/x-bar")];
        let own = own.map(|(extension, media_type)| (extension.to_owned(), media_type.to_owned()));
        let rows = [
            ("index.HTML", "text/html; charset=latin1"),
            ("x.bar", "application/x-bar"),
            ("a.txt", "text/plain"),
        ];
        check(&MediaTypes::new(own, None), &rows);
    }

    #[test]
    fn what_is_worth_compressing() {
        for yes in [
            "text/html",
            "text/css; charset=utf-8",
            "application/json",
            "application/ld+json",
            "image/svg+xml",
            "application/wasm",
            "application/x-javascript",
            "font/ttf",
        ] {
            assert!(compresses(yes), "{yes}");
        }
        for no in ["image/png", "application/zip", "application/x-tar", "font/woff2", UNKNOWN, "video/mp4"] {
            assert!(!compresses(no), "{no}");
        }
    }

    #[test]
    fn what_is_a_media_type() {
        assert!(
            ["text/plain", "text/html; charset=utf-8", "application/vnd.a+b"].into_iter().all(is_media_type)
        );
        let bad =
            ["", "text", "/plain", "text/", "text/plain\r\nX: y", "te xt/plain", "text/a b", "text/x;\u{e9}"];
        assert!(!bad.into_iter().any(is_media_type));
    }
}
