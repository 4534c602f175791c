//! Judges lines: what each counts as, decided from the line and the options alone.
//!
//! So lines can be parsed and judged on any thread, process or machine, in any order. The collector takes them in the
//! log's order and does what depends on it.

use std::borrow::Cow;

use super::class::Class;
use super::entry::{Entry, Malformed};
use super::format::Format;
use super::policy::{Verdict, is_whole, judge, takes_by_name};
use super::{Options, names};

/// The methods that are counted by name.
pub const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "PROPFIND"];

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a, T> {
    Entry(&'a Judged, T),
    /// An entry that the selection leaves out.
    NotSelected(Logged),
    Directive,
    Malformed(Malformed, &'a [u8]),
}

/// A logged timestamp, which decides whether lines are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    pub unix_ns: i64,
    pub utc_offset_seconds: i32,
}

/// A selected entry without its texts; see [`Entry`] for fields of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    pub logged: Logged,
    pub unix_ns: i64,
    pub resolution_ns: i64,
    pub duration_ns: Option<i64>,
    pub upstream_ns: Option<i64>,
    /// As logged, or as assumed.
    pub size_bytes: Option<u64>,
    pub size_is_assumed: bool,
    pub status: u16,
    /// Its place in [`METHODS`]; the place after the last stands for all others.
    pub method: u8,
    /// `None` where there was no request.
    pub class: Option<Class>,
    pub verdict: Verdict,
    /// Whether a submitted form was answered by a redirect.
    pub redirects_form: bool,
}

/// The texts of an entry after renaming, which are looked up only where they are needed.
pub trait EntryTexts {
    fn client(&self) -> &[u8];
    fn name(&self) -> Name<'_>;
}

/// What names a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The method as [`names::method_before`] gives it.
    pub method: &'a [u8],
    pub target: &'a [u8],
    pub host: &'a [u8],
}

/// The texts of a line that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTexts<'a> {
    client: &'a [u8],
    name: Name<'a>,
}

impl EntryTexts for ReadTexts<'_> {
    fn client(&self) -> &[u8] {
        self.client
    }

    fn name(&self) -> Name<'_> {
        self.name
    }
}

/// Reads and judges a line, and calls `seen` with what it says.
pub fn read<T>(
    format: &mut Format,
    options: &Options,
    text: &[u8],
    seen: impl FnOnce(Line<'_, ReadTexts<'_>>) -> T,
) -> T {
    let escapes = format.escapes();
    let mut entry = match format.read(text) {
        Ok(Some(entry)) => entry,
        Ok(None) => return seen(Line::Directive),
        Err(reason) => return seen(Line::Malformed(reason, text)),
    };
    let logged = Logged { unix_ns: entry.logged_unix_ns, utc_offset_seconds: entry.utc_offset_seconds };
    if !options.selection.selects(&entry) {
        return seen(Line::NotSelected(logged));
    }
    options.selection.rename(&mut entry);
    if let Some(target) = names::spelled_alike(&entry.target, escapes) {
        entry.target = Cow::Owned(target);
    }
    let size_is_assumed = assume_size(&mut entry, options.assumed_size_bytes);
    let counted = METHODS.iter().position(|counted| counted.as_bytes() == &*entry.method);
    let judged = Judged {
        logged,
        unix_ns: entry.unix_ns,
        resolution_ns: entry.resolution_ns,
        duration_ns: entry.duration_ns,
        upstream_ns: entry.upstream_ns,
        size_bytes: entry.size_bytes,
        size_is_assumed,
        status: entry.status,
        method: counted.unwrap_or(METHODS.len()) as u8,
        class: Class::of(&entry),
        verdict: judge(&entry, options.keep),
        redirects_form: matches!(entry.status, 302 | 303)
            && matches!(&*entry.method, b"POST" | b"PUT" | b"PATCH" | b"DELETE"),
    };
    let method = names::method_before(&entry.method);
    let name = Name { method, target: &entry.target, host: &entry.host };
    let texts = ReadTexts { client: &entry.client, name };
    seen(Line::Entry(&judged, texts))
}

fn assume_size(entry: &mut Entry<'_>, assumed: Option<u64>) -> bool {
    let is_head = &*entry.method == b"HEAD";
    if entry.size_bytes.is_some() || !is_whole(entry.status) || takes_by_name(entry.status, is_head) {
        return false;
    }
    entry.size_bytes = assumed;
    assumed.is_some()
}
