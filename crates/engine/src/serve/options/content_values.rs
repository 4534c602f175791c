//! Parses the values of the content options.

use sojourn_http::media::{EXTENSION_BYTES_MAX, is_media_type};
use sojourn_http::token::is_token;
use sojourn_http::{SitePath, Status, host};

/// The longest field that can be added.
const FIELD_BYTES_MAX: usize = 1024;

/// Fields that only the server can set, and those with an option of their own.
const RESERVED: &[(&str, &str)] = &[
    ("accept-ranges", "the server's own"),
    ("cache-control", "set by --cache-control"),
    ("connection", "the server's own"),
    ("content-encoding", "the server's own"),
    ("content-length", "the server's own"),
    ("content-range", "the server's own"),
    ("content-type", "set by --media-type"),
    ("date", "the server's own"),
    ("etag", "the server's own"),
    ("keep-alive", "the server's own"),
    ("last-modified", "the server's own"),
    ("location", "the server's own"),
    ("server", "the server's own"),
    ("trailer", "the server's own"),
    ("transfer-encoding", "the server's own"),
    ("upgrade", "the server's own"),
];

/// Cache-Control directives with an argument, so that `max-age=60` is not mistaken for an extension.
const DIRECTIVES: &[&str] =
    &["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error", "no-cache", "private"];

/// Statuses for which a site may have an error page: those with which a document can fail.
pub const STATUSES: &[Status] =
    &[Status::Forbidden, Status::NotFound, Status::InternalServerError, Status::ServiceUnavailable];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaType {
    pub extension: String,
    pub media_type: String,
}

/// A response field that the configuration adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub value: String,
}

/// A value for some extensions, or for all if there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByExtension {
    pub extensions: Vec<String>,
    pub value: String,
}

/// The error page of a status.
#[derive(Clone, Debug)]
pub struct ErrorPage {
    pub status: Status,
    pub path: SitePath<'static>,
}

/// Parses a file name without a directory.
pub fn index(text: &str) -> Result<String, String> {
    match text {
        "" | "." | ".." => Err("an index is the name of a file, such as index.html".to_owned()),
        name if name.contains(['/', '\0']) => Err("an index is a name without directories".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// Parses `EXT=TYPE`.
pub fn media_type(text: &str) -> Result<MediaType, String> {
    let (left, media_type) = text.split_once('=').ok_or("expected EXT=TYPE, as in wasm=application/wasm")?;
    if !is_media_type(media_type) {
        return Err(format!("{media_type:?} is not a media type such as text/plain"));
    }
    Ok(MediaType { extension: extension(left)?, media_type: media_type.to_owned() })
}

/// Parses a name or `none`.
pub fn charset(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.bytes().all(is_token);
    if is_name { Ok(text.to_owned()) } else { Err("a charset is a name, such as utf-8, or none".to_owned()) }
}

/// Parses `Name: value`.
pub fn field(text: &str) -> Result<Field, String> {
    let (name, value) = text.split_once(':').ok_or("expected 'Name: value'")?;
    let value = value.trim_matches([' ', '\t']);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("{name:?} is not a field name"));
    }
    if let Some((_, whose)) = RESERVED.iter().find(|(reserved, _)| name.eq_ignore_ascii_case(reserved)) {
        return Err(format!("{name} is {whose}"));
    }
    is_value(value)?;
    Ok(Field { name: name.to_owned(), value: value.to_owned() })
}

/// Parses `VALUE`, or `EXT,EXT=VALUE`.
pub fn cache_control(text: &str) -> Result<ByExtension, String> {
    let (extensions, value) = match text.split_once('=') {
        Some(("*", value)) => (Vec::new(), value),
        Some((list, value)) if !DIRECTIVES.contains(&list) && !list.contains(' ') && !is_directives(list) => {
            (list.split(',').map(extension).collect::<Result<_, _>>()?, value)
        }
        _ => (Vec::new(), text),
    };
    if value.is_empty() {
        return Err("Cache-Control needs a value such as max-age=3600".to_owned());
    }
    is_value(value)?;
    Ok(ByExtension { extensions, value: value.to_owned() })
}

/// Parses `STATUS=/PATH`.
pub fn error_page(text: &str) -> Result<ErrorPage, String> {
    let (code, target) = text.split_once('=').ok_or("expected STATUS=/PATH, as in 404=/404.html")?;
    let status = STATUSES.iter().find(|status| status.code().to_string() == code);
    let status = *status.ok_or(format!("{code:?} cannot have an error page: use 403, 404, 500 or 503"))?;
    Ok(ErrorPage { status, path: path(target)? })
}

/// Parses a path in the site that names a file.
pub fn path(text: &str) -> Result<SitePath<'static>, String> {
    let path = SitePath::decode(text.as_bytes()).map_err(|error| error.to_string())?.into_owned();
    if path.is_directory() { Err("a directory is not a document".to_owned()) } else { Ok(path) }
}

/// Parses a name or address.
pub fn host_name(text: &str) -> Result<String, String> {
    if host::is_name(text) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not a host name: use example.org, *.example.org or an address, without a port"))
}

fn is_directives(list: &str) -> bool {
    list.split(',').next_back().is_some_and(|last| DIRECTIVES.contains(&last))
}

fn extension(text: &str) -> Result<String, String> {
    let bare = text.trim().trim_start_matches('.').to_ascii_lowercase();
    let is_one = (1..=EXTENSION_BYTES_MAX).contains(&bare.len()) && !bare.contains(['/', '.', '\0']);
    if is_one { Ok(bare) } else { Err(format!("{text:?} is not a file extension such as html")) }
}

fn is_value(value: &str) -> Result<(), String> {
    if value.len() > FIELD_BYTES_MAX {
        return Err(format!("the value is longer than {FIELD_BYTES_MAX} bytes"));
    }
    if value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
        return Ok(());
    }
    Err("the value contains a character that is not allowed in fields".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_cache_control() {
        let check = |text: &str, extensions: &[&str], value: &str| {
            let extensions = extensions.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(
                cache_control(text),
                Ok(ByExtension { extensions, value: value.to_owned() }),
                "{text}"
            );
        };
        check("max-age=60", &[], "max-age=60");
        check("no-cache", &[], "no-cache");
        check("public, max-age=60", &[], "public, max-age=60");
        check("public,max-age=60", &[], "public,max-age=60");
        check("*=no-store", &[], "no-store");
        check("css,.JS=max-age=31536000, immutable", &["css", "js"], "max-age=31536000, immutable");
        for bad in ["", "css=", "a/b=no-cache", "css,=no-cache", "no-cache\r\nX: y"] {
            assert!(cache_control(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn fields() {
        let frames = Field { name: "X-Frame-Options".to_owned(), value: "DENY".to_owned() };
        assert_eq!(field("X-Frame-Options:  DENY "), Ok(frames));
        assert_eq!(field("Content-Length: 3").unwrap_err(), "Content-Length is the server's own");
        for bad in
            ["", "X", ": y", "X Y: z", "X: a\r\nY: b", "X: \u{e9}", &format!("X: {}", "y".repeat(1025))]
        {
            assert!(field(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn other_values() {
        assert_eq!(media_type(".WASM=application/wasm").map(|it| it.extension), Ok("wasm".to_owned()));
        assert!(
            media_type("wasm").is_err() && media_type("a=b").is_err() && media_type("=text/plain").is_err()
        );
        assert!(index("index.php").is_ok() && index("a/b").is_err() && index("..").is_err());
        assert!(charset("none").is_ok() && charset("utf 8").is_err());
        assert_eq!(error_page("404=/errors/404.html").map(|it| it.status.code()), Ok(404));
        for bad in ["404", "200=/x", "404=x", "404=/dir/", "404=/../x", "418=/x"] {
            assert!(error_page(bad).is_err(), "{bad}");
        }
    }
}
