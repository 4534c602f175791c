//! The rules of a site: which files of a directory are served, and with which fields.
//!
//! Each virtual host has its own. The origin applies them when it opens a document; cached documents have them applied
//! already.

use std::collections::BTreeMap;
use std::sync::Arc;

use sojourn_http::media::{EXTENSION_BYTES_MAX, MediaTypes, compresses, extension};

/// The rules of one site directory.
#[derive(Clone, Debug)]
pub struct Rules {
    /// True to serve paths with a segment that begins with a dot.
    pub shows_hidden: bool,
    pub links: Links,
    /// Index files: the first that exists is served for its directory.
    pub indexes: Vec<Box<[u8]>>,
    /// True to list directories without an index file.
    pub lists: bool,
    /// For which files compressed copies are looked for.
    pub precompressed: Precompressed,
    pub media_types: MediaTypes,
    /// Field lines added to every document, each with its CRLF.
    pub fields: Arc<str>,
    pub cache_control: CacheControl,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            shows_hidden: false,
            links: Links::default(),
            indexes: vec![b"index.html".as_slice().into()],
            lists: false,
            precompressed: Precompressed::default(),
            media_types: MediaTypes::default(),
            fields: "".into(),
            cache_control: CacheControl::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Relative links that stay below the root.
    #[default]
    Inside,
    None,
    Any,
}

impl Links {
    pub const ALL: &[Links] = &[Links::Inside, Links::None, Links::Any];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Links::Inside => "inside",
            Links::None => "none",
            Links::Any => "any",
        }
    }
}

/// For which files compressed copies are looked for. Each check costs system calls when a file is opened or checked
/// again, so the default is to check only where a copy is likely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precompressed {
    /// Files of types that compress well.
    #[default]
    Auto,
    Always,
    Never,
}

impl Precompressed {
    pub const ALL: &[Precompressed] = &[Precompressed::Auto, Precompressed::Always, Precompressed::Never];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Precompressed::Auto => "auto",
            Precompressed::Always => "always",
            Precompressed::Never => "never",
        }
    }

    /// Returns true if compressed copies are looked for beside a file of this type.
    pub fn applies_to(self, media_type: &str) -> bool {
        match self {
            Precompressed::Auto => compresses(media_type),
            Precompressed::Always => true,
            Precompressed::Never => false,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct CacheControl {
    /// By extension, in lower case without the dot.
    pub by_extension: BTreeMap<Box<[u8]>, Arc<str>>,
    pub others: Option<Arc<str>>,
}

impl CacheControl {
    /// The Cache-Control value for the file at `path`, if any.
    pub fn of(&self, path: &[u8]) -> Option<Arc<str>> {
        if self.by_extension.is_empty() {
            return self.others.clone();
        }
        let mut buffer = [0; EXTENSION_BYTES_MAX];
        let own = extension(path, &mut buffer).and_then(|it| self.by_extension.get(it));
        own.or(self.others.as_ref()).cloned()
    }
}
