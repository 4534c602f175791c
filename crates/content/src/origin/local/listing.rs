//! Directory listings: a page for people, and JSON for programs.
//!
//! A listing shows what would be served, directories first, sorted by name. Both forms are memory files, so ranges,
//! conditions, caches and every way of sending work for them as for any document.

use std::ffi::CStr;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, RawDir, Stat, fstat, statat};
use rustix::io::Errno;
use serde::Serialize;
use sojourn_http::path::percent_encode;
use sojourn_http::{HttpDate, SitePath};

use super::names::Name;
use super::root::{BlockingMode, LOOKING, Root};
use crate::document::{Choice, Document, Source};
use crate::memory_file::MemoryFile;
use crate::rules::{Links, Rules};

/// The most entries of a listing. A larger directory shows those that the file system returns first, and a note that
/// there are more.
pub const ENTRIES_MAX: usize = 10_000;

/// Buffer size for directory entries from the kernel.
const ENTRY_BUFFER_BYTES: usize = 32 * 1024;

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

#[derive(Debug, Serialize)]
pub struct Listing {
    /// The directory's path in the site, with leading and trailing slash.
    pub path: String,
    pub entries: Vec<Entry>,
    pub is_truncated: bool,
}

#[derive(Debug, Serialize)]
pub struct Entry {
    /// The name's bytes, for the link.
    #[serde(skip)]
    pub raw_name: Box<[u8]>,
    /// The name as text, for display.
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Last modification, such as `2026-11-22T03:15:00Z`.
    pub modified: String,
}

/// The kind of an entry; the order is that of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Directory,
    File,
}

/// Makes both forms of the listing of `directory`, which is called `name` below `root` and `path` in the site.
pub fn make(
    root: &Root,
    rules: &Rules,
    directory: &OwnedFd,
    name: &Name,
    path: &SitePath<'_>,
) -> Result<[Document; 2], Errno> {
    let mut entries = Vec::new();
    let mut is_truncated = false;
    // Anything shown can only change together with the change time of an inode.
    let mut changed = fstat(directory)?.st_ctime;
    each_entry(root, rules, directory, name, |name, stat| {
        is_truncated = entries.len() == ENTRIES_MAX;
        if !is_truncated {
            changed = changed.max(stat.st_ctime);
            entries.push(Entry::new(name, stat));
        }
        !is_truncated
    })?;
    entries.sort_unstable_by(|a, b| (a.kind, &a.raw_name).cmp(&(b.kind, &b.raw_name)));
    let path = format!("/{}", String::from_utf8_lossy(path.as_bytes()));
    let listing = Listing { path, entries, is_truncated };
    let json = serde_json::to_string(&listing).expect("text and numbers are JSON");
    let changed = HttpDate::from_seconds(changed);
    Ok([
        in_memory(page(&listing).as_bytes(), "text/html; charset=utf-8", changed)?,
        in_memory(json.as_bytes(), "application/json", changed)?,
    ])
}

/// Calls `each` for the served entries of `directory` until it returns false. The directory is called `name` below
/// `root`.
pub fn each_entry(
    root: &Root,
    rules: &Rules,
    directory: &OwnedFd,
    name: &Name,
    mut each: impl FnMut(&CStr, &Stat) -> bool,
) -> Result<(), Errno> {
    let mut buffer = [MaybeUninit::uninit(); ENTRY_BUFFER_BYTES];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let entry_name = entry.file_name();
        let is_hidden = entry_name.to_bytes().starts_with(b".") && entry_name != c".well-known";
        if matches!(entry_name.to_bytes(), b"." | b"..") || (is_hidden && !rules.shows_hidden) {
            continue;
        }
        // Skips entries that have vanished and links that lead nowhere.
        let Some(stat) = look_at(root, rules, directory, name, entry_name) else { continue };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if (kind.is_file() || kind.is_dir()) && !each(entry_name, &stat) {
            break;
        }
    }
    Ok(())
}

fn look_at(root: &Root, rules: &Rules, directory: &OwnedFd, name: &Name, entry: &CStr) -> Option<Stat> {
    let stat = statat(directory, entry, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if !FileType::from_raw_mode(stat.st_mode).is_symlink() {
        return Some(stat);
    }
    if rules.links == Links::None {
        return None;
    }
    let target = Name::of(&[name.as_bytes(), b"/", entry.to_bytes()])?;
    let target = root.open_below(target.as_c_str(), LOOKING, BlockingMode::Disk).ok()?;
    fstat(&target).ok()
}

fn in_memory(content: &[u8], media_type: &str, changed: HttpDate) -> Result<Document, Errno> {
    let mut file = MemoryFile::new("listing")?;
    file.append(content)?;
    let stat = fstat(&file)?;
    // The tag depends on the content only, so an unchanged listing keeps it.
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    Ok(Document {
        modified: changed,
        entity_tag: format!("\"{:x}-{:x}\"", hasher.finish(), content.len()).into(),
        media_type: media_type.into(),
        choice: Choice::Accept,
        source: Source::Listing,
        ..Document::new(file.into(), b"", &stat)
    })
}

impl Entry {
    fn new(name: &CStr, stat: &Stat) -> Entry {
        let raw_name: Box<[u8]> = name.to_bytes().into();
        let kind = if FileType::from_raw_mode(stat.st_mode).is_dir() { Kind::Directory } else { Kind::File };
        let size_bytes = (kind == Kind::File).then_some(u64::try_from(stat.st_size).unwrap_or(0));
        let modified = HttpDate::from_seconds(stat.st_mtime).iso8601();
        Entry { name: String::from_utf8_lossy(&raw_name).into_owned(), raw_name, kind, size_bytes, modified }
    }
}

/// The listing as an HTML page: no scripts, follows the reader's light or dark scheme, and fits small screens.
fn page(listing: &Listing) -> String {
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
