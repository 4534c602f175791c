//! The class of a request: whether a static copy of its site can answer it, and if not, why.
//!
//! The line decides it, but for the three classes of dynamic paths whose requests look static; `dynamic_paths` finds those.

use serde::Serialize;

use super::entry::Entry;
use super::policy::{body_bytes, is_whole, takes_by_name};

/// The class of a request with respect to a static copy of its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A complete or not-modified response with a file.
    Covered,
    Query,
    /// A method other than GET and HEAD.
    Method,
    /// The path is requested right after a form was posted.
    AfterPost,
    /// The response sizes of the path differ between clients, but not between one client's requests.
    UserDependent,
    /// The response size of the path keeps changing.
    VaryingSize,
    /// A status of 4xx or 5xx, or no status.
    Failed,
    /// A status of 3xx other than 304.
    Redirected,
    /// A status of 206.
    Partial,
    /// A successful response without a logged size.
    WithoutSize,
    /// A not-modified response or HEAD whose document has no logged size.
    OfUnknownSize,
}

pub const CLASSES: usize = Class::OfUnknownSize as usize + 1;

impl Class {
    /// All classes but [`Class::Covered`].
    pub const NOT_COVERED: [Class; CLASSES - 1] = [
        Class::Query,
        Class::Method,
        Class::AfterPost,
        Class::UserDependent,
        Class::VaryingSize,
        Class::Failed,
        Class::Redirected,
        Class::Partial,
        Class::WithoutSize,
        Class::OfUnknownSize,
    ];

    /// The class that the line alone decides; `None` where there was no request.
    pub fn of(entry: &Entry<'_>) -> Option<Class> {
        let is_head = &*entry.method == b"HEAD";
        Some(if entry.target.is_empty() {
            return None;
        } else if !is_head && &*entry.method != b"GET" {
            Class::Method
        } else if memchr::memchr(b'?', &entry.target).is_some() {
            Class::Query
        } else if takes_by_name(entry.status, is_head) {
            Class::Covered
        } else if is_whole(entry.status) {
            if body_bytes(entry.status, entry.size_bytes).is_some() {
                Class::Covered
            } else {
                Class::WithoutSize
            }
        } else {
            match entry.status {
                206 => Class::Partial,
                300..=399 => Class::Redirected,
                _ => Class::Failed,
            }
        })
    }

    pub fn is_dynamic(self) -> bool {
        (Class::Query..=Class::VaryingSize).contains(&self)
    }
}
