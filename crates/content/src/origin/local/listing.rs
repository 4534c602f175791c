//! Directory listings: a page for people, and JSON for programs.
//!
//! A listing shows what would be served, directories first, sorted by name. Both forms are memory files, so ranges,
//! conditions, caches and every way of sending work for them as for any document.

use std::ffi::CStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, RawDir, Stat, fstat, statat};
use rustix::io::Errno;
use serde::Serialize;
use sojourn_http::{HttpDate, SitePath};

use super::names::Name;
use super::page::page;
use super::root::{BlockingMode, LOOKING, Root};
use crate::document::{Choice, Document, Source};
use crate::memory_file::MemoryFile;
use crate::rules::{Links, Rules};

/// The most entries of a listing. A larger directory shows those that the file system returns first, and a note that
/// there are more.
pub const ENTRIES_MAX: usize = 10_000;

/// Buffer size for directory entries from the kernel.
const ENTRY_BUFFER_BYTES: usize = 32 * 1024;

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
