//! Two sites with features of static servers.

use std::fs::File;
use std::time::UNIX_EPOCH;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::fixture::{large, lay_out, write};

/// Creates two sites side by side in a new directory: `site`, the small one with compressed copies, error pages and
/// directories without an index, and `app`. They match [`CONFIGURATION`].
pub fn sites() -> tempfile::TempDir {
    let outer = tempfile::tempdir().unwrap();
    let site = outer.path().join("site");
    lay_out(&site);
    write(&site, "page.html", b"<p>as it is");
    write(&site, "page.html.br", b"as brotli");
    write(&site, "page.html.gz", b"as gzip");
    write(&site, "old.css", b"new");
    write(&site, "old.css.gz", b"old");
    let old = File::options().write(true).open(site.join("old.css.gz")).unwrap();
    old.set_modified(UNIX_EPOCH).unwrap();
    write(&site, "large.js", b"small");
    write(&site, "large.js.zst", &large());
    write(&site, "errors/404.html", b"<p>not it");
    write(&site, "errors/404.html.gz", b"not it");
    write(&site, "second/second.idx", b"second");
    mknodat(CWD, site.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let app = outer.path().join("app");
    write(&app, "index.html", b"<p>app");
    write(&app, "hello.txt", b"there");
    outer
}

/// The configuration for [`sites`]: `{}` stands for the directory of both.
pub const CONFIGURATION: &str = r#"
root = "{}/site"
name = "h"
unknown-host = "refuse"
listing = true
index = ["index.html", "second.idx"]
media-type = { idx = "application/x-second" }
header = "X-Site: rich"
nosniff = true
cache-control = { "*" = "max-age=60", html = "no-cache" }
error-page = { 403 = "/errors/none.html", 404 = "/errors/404.html" }
[[host]]
names = ["app.example", "*.app.example", "[::1]"]
root = "{}/app"
fallback = "/index.html"
listing = false
nosniff = false
"#;
