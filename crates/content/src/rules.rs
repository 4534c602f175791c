//! What is served of a directory, and what is said with it: the choices of the site's owner, as values.
//!
//! One per host. The origin follows them when it opens documents; nobody asks them when a document is at hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use sojourn_http::media::{EXTENSION_BYTES_MAX, MediaTypes, compresses, extension};

/// The choices about one directory.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Whether paths with a segment that begins with a dot are served, too.
    pub shows_hidden: bool,
    /// Which symbolic links are followed.
    pub links: Links,
    /// Files that stand for their directory, the first that is there.
    pub indexes: Vec<Box<[u8]>>,
    /// Whether a directory without such a file is listed.
    pub lists: bool,
    /// Beside which files compressed copies are looked for.
    pub precompressed: Precompressed,
    /// Content-Type by extension.
    pub media_types: MediaTypes,
    /// Whole field lines for every document, each with its CRLF.
    pub fields: Arc<str>,
    /// Cache-Control by extension.
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

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Relative ones that stay below the root.
    #[default]
    Inside,
    /// None.
    None,
    /// All, wherever they lead.
    Any,
}

impl Links {
    /// Every policy.
    pub const ALL: &[Links] = &[Links::Inside, Links::None, Links::Any];

    /// The name for the command line.
    pub fn name(self) -> &'static str {
        match self {
            Links::Inside => "inside",
            Links::None => "none",
            Links::Any => "any",
        }
    }
}

/// Beside which files compressed copies are looked for. Each look costs system calls when a file is opened and
/// when it is looked at again, so by default only where a copy is likely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precompressed {
    /// Files whose type compresses well.
    #[default]
    Auto,
    /// All files.
    Always,
    /// None.
    Never,
}

impl Precompressed {
    /// Every choice.
    pub const ALL: &[Precompressed] = &[Precompressed::Auto, Precompressed::Always, Precompressed::Never];

    /// The name for the command line.
    pub fn name(self) -> &'static str {
        match self {
            Precompressed::Auto => "auto",
            Precompressed::Always => "always",
            Precompressed::Never => "never",
        }
    }

    /// Whether copies are looked for beside a file of this type.
    pub fn looks(self, media_type: &str) -> bool {
        match self {
            Precompressed::Auto => compresses(media_type),
            Precompressed::Always => true,
            Precompressed::Never => false,
        }
    }
}

/// Cache-Control by extension.
#[derive(Clone, Debug, Default)]
pub struct CacheControl {
    /// By extension, in lower case and without the dot.
    pub by_extension: BTreeMap<Box<[u8]>, Arc<str>>,
    /// Of all others.
    pub others: Option<Arc<str>>,
}

impl CacheControl {
    /// The value for the file at `path`, if any.
    pub fn of(&self, path: &[u8]) -> Option<Arc<str>> {
        if self.by_extension.is_empty() {
            return self.others.clone();
        }
        let mut buffer = [0; EXTENSION_BYTES_MAX];
        let own = extension(path, &mut buffer).and_then(|it| self.by_extension.get(it));
        own.or(self.others.as_ref()).cloned()
    }
}
