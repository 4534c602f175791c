//! Resolves a link or redirect against the URL it came from (RFC 3986, 5.2), within the loaded server.

/// Longer references are not followed.
pub const REFERENCE_BYTES_MAX: usize = 8 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A path and query of the same server.
    Here(String),
    /// Another server, port or scheme.
    Elsewhere,
}

/// Resolves a reference in a response of `host` (with `scheme`) to a request for `path`. Characters not allowed in a
/// request line are percent-encoded.
pub fn resolve(reference: &str, scheme: &str, host: &str, path: &str) -> Place {
    let reference = reference.trim().split('#').next().unwrap_or_default();
    if reference.len() > REFERENCE_BYTES_MAX {
        return Place::Elsewhere;
    }
    let rest = match reference.split_once(':') {
        Some((own, rest)) if is_scheme(own) => {
            if !own.eq_ignore_ascii_case(scheme) || !rest.starts_with("//") {
                return Place::Elsewhere;
            }
            rest
        }
        _ => reference,
    };
    if let Some(authority) = rest.strip_prefix("//") {
        let (own, path) = authority.split_at(authority.find(['/', '?']).unwrap_or(authority.len()));
        if !is_same_host(own, host, scheme) {
            return Place::Elsewhere;
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        return Place::Here(clean(&path));
    }
    let (base, _) = path.split_once('?').unwrap_or((path, ""));
    Place::Here(clean(&match rest.chars().next() {
        None => path.to_owned(),
        Some('/') => rest.to_owned(),
        Some('?') => format!("{base}{rest}"),
        Some(_) => format!("{}{rest}", &base[..base.rfind('/').map_or(0, |end| end + 1)]),
    }))
}

/// RFC 3986, 3.1.
fn is_scheme(text: &str) -> bool {
    let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && text.bytes().all(may_stand)
}

/// Compares hosts; a scheme's default port may be omitted.
fn is_same_host(one: &str, other: &str, scheme: &str) -> bool {
    let usual = if scheme == "https" { ":443" } else { ":80" };
    let plain = |host: &str| host.strip_suffix(usual).unwrap_or(host).to_ascii_lowercase();
    plain(one) == plain(other)
}

/// Removes dot segments (RFC 3986, 5.2.4) and percent-encodes characters not allowed in a request line.
fn clean(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut segments: Vec<&str> = Vec::new();
    let mut is_folder = false;
    for segment in path.split('/').skip(1) {
        is_folder = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut cleaned = String::with_capacity(path.len() + query.len() + 1);
    segments.iter().for_each(|segment| {
        cleaned.push('/');
        encode(segment, &mut cleaned);
    });
    if is_folder || segments.is_empty() {
        cleaned.push('/');
    }
    encode(query, &mut cleaned);
    cleaned
}

fn encode(text: &str, output: &mut String) {
    for byte in text.bytes() {
        match byte.is_ascii_graphic() {
            true => output.push(char::from(byte)),
            false => *output += &format!("%{byte:02X}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(reference: &str, expected: &str) {
        let place = resolve(reference, "http", "shop.test:8080", "/a/b/c?d=e");
        assert_eq!(place, Place::Here(expected.to_owned()), "{reference:?}");
    }

    #[test]
    fn relative_references() {
        check("/x", "/x");
        check("x", "/a/b/x");
        check("", "/a/b/c?d=e");
        check("?y=1", "/a/b/c?y=1");
        check("#top", "/a/b/c?d=e");
        check("../x/./y", "/a/x/y");
        check("../../../x", "/x");
        check("..", "/a/");
        check(".", "/a/b/");
        check("/x?next=/../y#z", "/x?next=/../y");
        check("/ü x", "/%C3%BC%20x");
        check("/x?u=http://other/", "/x?u=http://other/");
        check("/x//y/", "/x//y/");
    }

    #[test]
    fn whole_urls() {
        check("http://shop.test:8080", "/");
        check("http://SHOP.test:8080/x?y", "/x?y");
        check("//shop.test:8080?y", "/?y");
        let at = |reference: &str, scheme: &str, host: &str| resolve(reference, scheme, host, "/");
        assert_eq!(at("https://a:443/x", "https", "a"), Place::Here("/x".into()));
        assert_eq!(at("http://a/x", "http", "a:80"), Place::Here("/x".into()));
        for elsewhere in
            ["https://a/x", "http://b/x", "//b", "http://a:81/", "http://a@b/", "mailto:x", "javascript:1"]
        {
            assert_eq!(at(elsewhere, "http", "a"), Place::Elsewhere, "{elsewhere}");
        }
        assert_eq!(at(&"x".repeat(REFERENCE_BYTES_MAX + 1), "http", "a"), Place::Elsewhere);
    }

    proptest! {
        #[test]
        fn whatever_comes_stands_in_a_request_line(reference in "\\PC{0,40}", path in "/[ -~]{0,20}") {
            if let Place::Here(path) = resolve(&reference, "http", "a", &path) {
                prop_assert!(path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic()), "{}", path);
            }
        }
    }
}
