//! Options of content: which files of a directory are served and with which fields, for `DIR` and for each virtual
//! host.
//!
//! Everything is optional here: a host inherits from `DIR`, and `DIR` from the defaults.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use sojourn_content::{CacheControl, Links, Precompressed, Rules};
use sojourn_http::SitePath;
use sojourn_http::media::MediaTypes;
use sojourn_server::Pages;

use super::content_values::{self as values, ByExtension, ErrorPage, Field, MediaType};
use crate::serve::config;

/// The options of one directory.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Content")]
pub struct ContentOptions {
    /// Index file of a directory; repeatable, the first that exists is used [default: index.html]
    #[arg(long, value_name = "NAME", value_parser = values::index)]
    pub index: Vec<String>,
    /// List directories without an index file: as a page, or as JSON for clients that prefer it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub listing: Option<bool>,
    /// Also offer films (MP4 and QuickTime files with H.264, H.265 and AAC) as HLS: FILM/index.m3u8 is the playlist of
    /// FILM
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub hls: Option<bool>,
    /// Send NAME.br, NAME.zst or NAME.gz instead of NAME to clients that accept it: for types that compress well
    /// (auto), for all files, or never [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = names(Precompressed::ALL, Precompressed::name))]
    pub precompressed: Option<String>,
    /// Symbolic links to follow: relative ones that stay inside the directory, none, or any [default: inside]
    #[arg(long, value_name = "WHICH", value_parser = names(Links::ALL, Links::name))]
    pub symlinks: Option<String>,
    /// Also serve files and directories whose names start with a dot
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub serve_hidden: Option<bool>,
    /// Content-Type of files with this extension; repeatable
    #[arg(long, value_name = "EXT=TYPE", value_parser = values::media_type)]
    pub media_type: Vec<MediaType>,
    /// Charset of text types that do not declare it themselves, or none [default: utf-8]
    #[arg(long, value_name = "NAME", value_parser = values::charset)]
    pub charset: Option<String>,
    /// Add this field to every document; repeatable
    #[arg(long, value_name = "NAME: VALUE", value_parser = values::field)]
    pub header: Vec<Field>,
    /// Forbid browsers to guess a different content type (X-Content-Type-Options: nosniff)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub nosniff: Option<bool>,
    /// Cache-Control of documents, or of those with these extensions; repeatable
    #[arg(long, value_name = "[EXT,EXT=]VALUE", value_parser = values::cache_control)]
    pub cache_control: Vec<ByExtension>,
    /// Send this document with status 403, 404, 500 or 503; repeatable
    #[arg(long, value_name = "STATUS=/PATH", value_parser = values::error_page)]
    pub error_page: Vec<ErrorPage>,
    /// Send this document with status 200 where nothing is found, for single-page applications
    #[arg(long, value_name = "/PATH", value_parser = values::path)]
    pub fallback: Option<SitePath<'static>>,
}

impl ContentOptions {
    /// These options, completed by `others`.
    pub fn or(self, others: &ContentOptions) -> ContentOptions {
        let others = others.clone();
        ContentOptions {
            index: or(self.index, others.index),
            listing: self.listing.or(others.listing),
            hls: self.hls.or(others.hls),
            precompressed: self.precompressed.or(others.precompressed),
            symlinks: self.symlinks.or(others.symlinks),
            serve_hidden: self.serve_hidden.or(others.serve_hidden),
            media_type: or(self.media_type, others.media_type),
            charset: self.charset.or(others.charset),
            header: or(self.header, others.header),
            nosniff: self.nosniff.or(others.nosniff),
            cache_control: or(self.cache_control, others.cache_control),
            error_page: or(self.error_page, others.error_page),
            fallback: self.fallback.or(others.fallback),
        }
    }

    /// The rules of the origin.
    pub fn rules(&self) -> Rules {
        let default = Rules::default();
        let indexes = self.index.iter().map(|name| name.as_bytes().into()).collect::<Vec<_>>();
        Rules {
            shows_hidden: self.serve_hidden.unwrap_or(default.shows_hidden),
            links: chosen(&self.symlinks, Links::ALL, Links::name),
            indexes: or(indexes, default.indexes),
            lists: self.listing.unwrap_or(default.lists),
            precompressed: chosen(&self.precompressed, Precompressed::ALL, Precompressed::name),
            media_types: self.media_types(),
            fields: self.fields(),
            cache_control: self.cache_control(),
        }
    }

    pub fn offers_hls(&self) -> bool {
        self.hls.unwrap_or_default()
    }

    /// The error pages and the fallback.
    pub fn pages(&self) -> Pages {
        let errors =
            self.error_page.iter().map(|ErrorPage { status, path }| (*status, path.clone())).collect();
        Pages { errors, fallback: self.fallback.clone() }
    }

    fn media_types(&self) -> MediaTypes {
        let own = self
            .media_type
            .iter()
            .map(|MediaType { extension, media_type }| (extension.clone(), media_type.clone()));
        MediaTypes::new(own, Some(self.charset.as_deref().unwrap_or("utf-8")).filter(|name| *name != "none"))
    }

    fn fields(&self) -> Arc<str> {
        let nosniff = self.nosniff.unwrap_or_default().then_some(("X-Content-Type-Options", "nosniff"));
        let own = self.header.iter().map(|field| (&*field.name, &*field.value));
        own.chain(nosniff).map(|(name, value)| format!("{name}: {value}\r\n")).collect::<String>().into()
    }

    fn cache_control(&self) -> CacheControl {
        let mut by_extension = CacheControl::default();
        for ByExtension { extensions, value } in &self.cache_control {
            let value: Arc<str> = value.as_str().into();
            if extensions.is_empty() {
                by_extension.others = Some(Arc::clone(&value));
            }
            for extension in extensions {
                by_extension.by_extension.insert(extension.as_bytes().into(), Arc::clone(&value));
            }
        }
        by_extension
    }
}

/// A virtual host with its own directory: `NAME,NAME=DIR`, or a table as in the configuration file.
#[derive(Parser, Clone, Debug)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct HostOptions {
    /// Its names
    #[arg(long, value_name = "NAME", value_parser = values::host_name, required = true)]
    pub names: Vec<String>,
    /// Its directory
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,
    #[command(flatten)]
    pub content: ContentOptions,
}

/// Parses `NAME,NAME=DIR`, or a TOML table in braces.
pub fn host(text: &str) -> Result<HostOptions, String> {
    if text.starts_with('{') {
        let words = config::words_of_table(text, &<HostOptions as clap::CommandFactory>::command())?;
        return HostOptions::try_parse_from(words).map_err(|error| config::first_line(&error));
    }
    let (names, root) = text.split_once('=').ok_or("expected NAME=DIR, as in www.example.org=/srv/www")?;
    let names = names.split(',').map(values::host_name).collect::<Result<_, _>>()?;
    Ok(HostOptions { names, root: root.into(), content: ContentOptions::default() })
}

fn or<T>(own: Vec<T>, others: Vec<T>) -> Vec<T> {
    if own.is_empty() { others } else { own }
}

fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> clap::builder::PossibleValuesParser {
    all.iter().map(|choice| name(*choice)).collect::<Vec<_>>().into()
}

fn chosen<T: Copy + Default>(given: &Option<String>, all: &[T], name: fn(T) -> &'static str) -> T {
    let is_it = |choice: &T| Some(name(*choice)) == given.as_deref();
    all.iter().copied().find(is_it).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use sojourn_http::Status;

    use super::*;

    #[test]
    fn hosts() {
        let short = host("a.example,*.b.example=/srv/a").unwrap();
        assert_eq!((short.names.len(), short.root.to_str()), (2, Some("/srv/a")));
        let text = "{ names = [\"a.example\"], root = \"/srv/a\", listing = true, serve-hidden = false, \
            index = [\"a\", \"b\"], error-page = { 404 = \"/404.html\" }, header = \"X-A: b\" }";
        let long = host(text).unwrap().content;
        assert_eq!((long.listing, long.serve_hidden, long.index.len()), (Some(true), Some(false), 2));
        assert_eq!((long.error_page[0].status, &*long.header[0].value), (Status::NotFound, "b"));
        for (bad, said) in [
            ("a.example", "expected NAME=DIR"),
            ("a:80=/srv", "not a host name"),
            ("{ root = \"/srv\" }", "--names"),
            ("{ names = [\"a\"], root = \"/srv\", listen = \"x\" }", "listen"),
            ("{ names = [\"a\"], root = ", ""),
        ] {
            let error = host(bad).unwrap_err();
            assert!(error.contains(said) && !error.contains('\n'), "{bad}: {error}");
        }
    }
}
