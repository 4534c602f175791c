//! A listing as an HTML page: no scripts, follows the reader's light or dark scheme, and fits small screens.

use std::fmt::Write;

use sojourn_http::path::percent_encode;

use super::listing::{ENTRIES_MAX, Entry, Kind, Listing};

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}\
h1{font-size:1.25rem;font-weight:600;overflow-wrap:anywhere}\
table{border-collapse:collapse;width:100%}\
th{font-weight:600;opacity:.7;text-align:left}\
th,td{border-bottom:1px solid #8884;padding:.35rem .5rem}\
td:first-child{overflow-wrap:anywhere}\
th:nth-child(n+2),td:nth-child(n+2){font-variant-numeric:tabular-nums;text-align:right;white-space:nowrap}\
tr:hover td{background:#8882}\
a{text-decoration:none}a:hover{text-decoration:underline}\
@media(max-width:40rem){th:nth-child(3),td:nth-child(3){display:none}}";

pub fn page(listing: &Listing) -> String {
    let mut page = String::with_capacity(2048 + 192 * listing.entries.len());
    let path = Escaped(&listing.path);
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{path}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{path}</h1>\n<table>\n\
         <thead><tr><th scope=\"col\">Name</th><th scope=\"col\">Size</th>\
         <th scope=\"col\">Modified (UTC)</th></tr></thead>\n<tbody>\n"
    );
    if listing.path != "/" {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for entry in &listing.entries {
        row(&mut page, entry);
    }
    page.push_str("</tbody>\n</table>\n");
    if listing.is_truncated {
        let _ = writeln!(page, "<p>Only the first {ENTRIES_MAX} entries are shown.</p>");
    } else if listing.entries.is_empty() {
        page.push_str("<p>This directory is empty.</p>\n");
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn row(page: &mut String, entry: &Entry) {
    let slash = if entry.kind == Kind::Directory { "/" } else { "" };
    page.push_str("<tr><td><a href=\"");
    percent_encode(&entry.raw_name, page);
    let _ = write!(page, "{slash}\">{}{slash}</a></td>", Escaped(&entry.name));
    match entry.size_bytes {
        Some(bytes) => {
            let _ = write!(page, "<td title=\"{bytes} bytes\">{}</td>", Size(bytes));
        }
        None => page.push_str("<td>–</td>"),
    }
    let minutes = entry.modified.get(..16).unwrap_or(&entry.modified);
    let _ = writeln!(page, "<td>{}</td></tr>", minutes.replace('T', " "));
}

/// Text escaped for HTML.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Control characters, such as line ends and terminal escapes, are shown as a replacement character.
                control if control.is_control() => f.write_char('\u{fffd}')?,
                plain => f.write_char(plain)?,
            }
        }
        Ok(())
    }
}

/// A size for people: three digits and a decimal unit.
struct Size(u64);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const UNITS: &[&str] = &["kB", "MB", "GB", "TB", "PB", "EB"];
        if self.0 < 1000 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1000.0;
        let mut unit = 0;
        while value >= 999.5 && unit + 1 < UNITS.len() {
            value /= 1000.0;
            unit += 1;
        }
        let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
        write!(f, "{value:.decimals$} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (9_994, "9.99 kB"),
            (9_996, "10.0 kB"),
            (99_960, "100 kB"),
            (999_499, "999 kB"),
            (999_500, "1.00 MB"),
            (1_234_567, "1.23 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(Size(bytes).to_string(), expected);
        }
    }

    #[test]
    fn names_are_text_and_links_are_links() {
        let name = "a&b <i>\"'\u{1b}:?#%.html";
        let entry = Entry {
            raw_name: name.as_bytes().into(),
            name: name.to_owned(),
            kind: Kind::File,
            size_bytes: Some(1),
            modified: "2026-11-22T03:15:00Z".to_owned(),
        };
        let page = page(&Listing { path: "/<x>/".to_owned(), entries: vec![entry], is_truncated: true });
        assert!(page.contains(
            "<a href=\"a%26b%20%3Ci%3E%22%27%1B%3A%3F%23%25.html\">a&amp;b &lt;i&gt;&quot;&#39;\u{fffd}:?#%.html</a>"
        ));
        assert!(page.contains("<h1>/&lt;x&gt;/</h1>") && page.contains(">2026-11-22 03:15<"));
        assert!(page.contains("Only the first 10000 entries are shown") && page.contains("href=\"../\""));
    }
}
