//! Media types by file name extension: one table, the types a static site is made of.

/// Extension and media type, sorted by extension.
const TYPES: &[(&str, &str)] = &[
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/x-icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("ogg", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("ps", "application/postscript"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tiff", "image/tiff"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
];

/// The type of a file that no row names.
const UNKNOWN: &str = "application/octet-stream";

/// The longest extension in the table.
const EXTENSION_BYTES_MAX: usize = 5;

/// The media type of the file at `path`.
pub fn media_type(path: &[u8]) -> &'static str {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let Some(dot) = name.iter().rposition(|byte| *byte == b'.') else { return UNKNOWN };
    let extension = &name[dot + 1..];
    if extension.len() > EXTENSION_BYTES_MAX {
        return UNKNOWN;
    }
    let lower = extension.to_ascii_lowercase();
    TYPES.binary_search_by(|(known, _)| known.as_bytes().cmp(&lower)).map_or(UNKNOWN, |row| TYPES[row].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        assert!(TYPES.is_sorted_by_key(|(extension, _)| *extension));
        assert!(TYPES.iter().all(|(extension, _)| extension.len() <= EXTENSION_BYTES_MAX));
        for (path, expected) in [
            ("index.html", "text/html"),
            ("a.b/photo.JPG", "image/jpeg"),
            ("a.html/noext", UNKNOWN),
            ("archive.tar.gz", "application/gzip"),
            ("", UNKNOWN),
            ("dot.", UNKNOWN),
        ] {
            assert_eq!(media_type(path.as_bytes()), expected, "{path}");
        }
    }
}
