//! Directories with everything that can go wrong, with and without `openat2`.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, Mode, mknodat};

use super::*;
use crate::resource::HostId;
use crate::rules::{Links, Precompressed};

/// A site opened under `rules` in both ways.
fn site(rules: &Rules) -> (tempfile::TempDir, [Directory; 2]) {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("site");
    fs::create_dir_all(root.join("dir")).unwrap();
    fs::create_dir_all(root.join("loop/index.html")).unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    fs::write(root.join("file.txt"), "hello").unwrap();
    fs::write(root.join("dir/index.html"), "<p>").unwrap();
    fs::write(root.join(".hidden"), "x").unwrap();
    symlink("file.txt", root.join("link")).unwrap();
    symlink("../secret", root.join("up")).unwrap();
    symlink(outer.path().join("secret"), root.join("absolute")).unwrap();
    symlink("..", root.join("dir/parent")).unwrap();
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let open = || Directory::new(&root, rules.clone()).unwrap();
    let walking = Directory { root: open().root.without_openat2(), ..open() };
    let with_kernel = open();
    (outer, [with_kernel, walking])
}

fn resource(target: &str) -> Resource<'static> {
    Resource { host: HostId::default(), path: SitePath::decode(target.as_bytes()).unwrap().into_owned() }
}

fn document(directory: &Directory, target: &str) -> Arc<Document> {
    match directory.open(&resource(target)) {
        Ok(Found::Document(document)) => document,
        other => panic!("{target}: {other:?}"),
    }
}

fn text(directory: &Directory, document: &Document) -> String {
    let mut bytes = vec![0; document.size as usize];
    assert_eq!(directory.read(document, 0, &mut bytes).unwrap(), bytes.len());
    String::from_utf8(bytes).unwrap()
}

fn check(directory: &Directory, target: &str, expected: Result<&str, OpenError>) {
    let found = directory.open(&resource(target)).map(|found| match found {
        Found::Directory => "a directory".to_owned(),
        Found::Document(document) | Found::Loaded(document, _) => text(directory, &document),
    });
    assert_eq!(found.as_deref().map_err(|error| *error), expected, "{target}");
}

#[test]
fn paths() {
    let (_outer, directories) = site(&Rules::default());
    let long = format!("/{}", "a".repeat(300));
    let deep = format!("/{}", "a/".repeat(3000));
    for directory in &directories {
        check(directory, "/file.txt", Ok("hello"));
        check(directory, "/dir/", Ok("<p>"));
        check(directory, "/dir/index.html", Ok("<p>"));
        check(directory, "/dir", Ok("a directory"));
        for missing in ["/", "/none", "/file.txt/", "/file.txt/x", "/.hidden", "/loop/", &long, &deep] {
            check(directory, missing, Err(OpenError::NotFound));
        }
        for special in ["/fifo", "/socket"] {
            check(directory, special, Err(OpenError::Forbidden));
        }
    }
}

#[test]
fn a_name_that_the_kernel_remembers_is_opened_without_waiting() {
    let (outer, [directory, _]) = site(&Rules { precompressed: Precompressed::Never, ..Rules::default() });
    let open_now = |target: &str| directory.open_now(&resource(target));
    fs::metadata(outer.path().join("site/file.txt")).unwrap();
    assert!(matches!(open_now("/file.txt"), Some(Ok(Found::Document(document))) if document.size == 5));
    assert!(matches!(open_now("/.hidden"), Some(Err(OpenError::NotFound))));
    // This path was never requested before.
    assert!(open_now("/new").is_none());
    check(&directory, "/new", Err(OpenError::NotFound));
}

#[test]
fn nobody_waits_for_copies_that_nobody_has_looked_for() {
    let (_outer, [directory, walking]) = site(&Rules::default());
    assert!(directory.open_now(&resource("/file.txt")).is_none());
    directory.look_up_all(b"file.txt", |_, stat| assert_eq!(stat.st_size, 5));
    assert!(matches!(directory.open_now(&resource("/file.txt")), Some(Ok(Found::Document(_)))));
    assert!(walking.open_now(&resource("/file.txt")).is_none());
}

#[test]
fn links() {
    for (links, with_kernel, walking) in [
        (Links::Inside, [Ok("hello"), Err(OpenError::NotFound)], [Err(OpenError::NotFound); 2]),
        (Links::None, [Err(OpenError::NotFound); 2], [Err(OpenError::NotFound); 2]),
        (Links::Any, [Ok("hello"), Ok("secret")], [Ok("hello"), Ok("secret")]),
    ] {
        let (_outer, directories) = site(&Rules { links, ..Rules::default() });
        for (directory, [inside, outside]) in directories.iter().zip([with_kernel, walking]) {
            for link in ["/link", "/dir/parent/file.txt"] {
                check(directory, link, inside);
            }
            for link in ["/up", "/absolute", "/dir/parent/up"] {
                check(directory, link, outside);
            }
            check(directory, "/dir/parent/../file.txt", Err(OpenError::NotFound));
        }
    }
}

#[test]
fn versions() {
    let (outer, directories) = site(&Rules::default());
    let file = outer.path().join("site/file.txt");
    for directory in &directories {
        fs::write(&file, "hello").unwrap();
        let old = document(directory, "/file.txt");
        let is_current = || directory.is_current(&resource("/file.txt"), &old);
        assert!(is_current());
        fs::write(&file, "longer than before").unwrap();
        assert!(!is_current());
        fs::remove_file(&file).unwrap();
        assert!(!is_current());
    }
}

#[test]
fn the_first_index_that_is_there() {
    let indexes = [b"index.html".as_slice(), b"index.htm"].map(Box::from).into();
    let (outer, [directory, _]) = site(&Rules { indexes, ..Rules::default() });
    let dir = outer.path().join("site/loop");
    fs::write(dir.join("index.htm"), "second").unwrap();
    let (index, by_name) = (document(&directory, "/loop/"), document(&directory, "/loop/index.htm"));
    assert_eq!(text(&directory, &index), "second");
    assert!(directory.is_current(&resource("/loop/"), &index));
    fs::remove_dir(dir.join("index.html")).unwrap();
    fs::write(dir.join("index.html"), "first").unwrap();
    assert!(!directory.is_current(&resource("/loop/"), &index));
    assert!(directory.is_current(&resource("/loop/index.htm"), &by_name));
    check(&directory, "/loop/", Ok("first"));
}

fn write_at(path: PathBuf, content: &str, seconds: f64) {
    fs::write(&path, content).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn copies_that_may_stand_for_the_original() {
    let (outer, directories) = site(&Rules::default());
    let path = |name: &str| outer.path().join("site").join(name);
    write_at(path("file.txt"), "hello", 1000.5);
    write_at(path("file.txt.br"), "older", 999.9);
    write_at(path("file.txt.zst"), "", 2000.0);
    write_at(path("file.txt.gz"), "whole seconds", 1000.0);
    for directory in &directories {
        let original = document(directory, "/file.txt");
        assert_eq!((&*original.media_type, original.coding), ("text/plain; charset=utf-8", None));
        assert_eq!(original.choice, Choice::AcceptEncoding);
        let [copy] = &*original.variants else { panic!("{original:?}") };
        assert_eq!(text(directory, copy), "whole seconds");
        assert_eq!(copy.coding, Some(Coding::Gzip));
        assert_eq!(copy.media_type, original.media_type);
        assert_eq!(&*copy.entity_tag, "\"3e8.0-d-gzip\"");
        assert!(directory.is_current(&resource("/file.txt"), &original));
    }
}

#[test]
fn copies_come_and_go() {
    let (outer, [directory, _]) = site(&Rules::default());
    let path = |name: &str| outer.path().join("site").join(name);
    let is_current = |document: &Document| directory.is_current(&resource("/file.txt"), document);
    write_at(path("file.txt"), "hello", 1000.0);
    let alone = document(&directory, "/file.txt");
    assert_eq!((alone.variants.len(), alone.choice), (0, Choice::None));
    write_at(path("file.txt.zst"), "copy", 1000.0);
    assert!(!is_current(&alone));
    let with_copy = document(&directory, "/file.txt");
    assert_eq!(with_copy.variants.len(), 1);
    assert!(is_current(&with_copy));
    write_at(path("file.txt.zst"), "another", 1000.0);
    assert!(!is_current(&with_copy));
    fs::remove_file(path("file.txt.zst")).unwrap();
    assert!(!is_current(&with_copy) && is_current(&alone));
    // Other types have no copies unless configured.
    fs::write(path("archive.tar"), "a").unwrap();
    fs::write(path("archive.tar.gz"), "b").unwrap();
    assert_eq!(document(&directory, "/archive.tar").variants.len(), 0);
    let (outer, [directory, _]) = site(&Rules { precompressed: Precompressed::Always, ..Rules::default() });
    fs::write(outer.path().join("site/archive.tar"), "a").unwrap();
    fs::write(outer.path().join("site/archive.tar.gz"), "b").unwrap();
    assert_eq!(document(&directory, "/archive.tar").variants.len(), 1);
}

#[test]
fn listings() {
    for (links, names) in [
        (Links::Inside, vec!["dir", "loop", "<b> & \u{e9}", "file.txt", "link"]),
        (Links::None, vec!["dir", "loop", "<b> & \u{e9}", "file.txt"]),
        (Links::Any, vec!["dir", "loop", "<b> & \u{e9}", "absolute", "file.txt", "link", "up"]),
    ] {
        let (outer, [directory, walking]) = site(&Rules { links, lists: true, ..Rules::default() });
        fs::write(outer.path().join("site/<b> & \u{e9}"), "xx").unwrap();
        let page = document(&directory, "/");
        let json = text(&directory, &page.variants[0]);
        let listed: serde_json::Value = serde_json::from_str(&json).unwrap();
        let entries = listed["entries"].as_array().unwrap();
        let found: Vec<_> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(found, names, "{links:?}");
        assert_eq!((&listed["path"], &listed["is_truncated"]), (&"/".into(), &false.into()));
        assert_eq!((&entries[0]["type"], entries[0].get("size_bytes")), (&"directory".into(), None));
        assert_eq!((&entries[2]["type"], &entries[2]["size_bytes"]), (&"file".into(), &2.into()));
        let html = text(&directory, &page);
        assert!(html.contains("<a href=\"dir/\">dir/</a>"), "{html}");
        assert!(html.contains("<a href=\"%3Cb%3E%20%26%20%C3%A9\">&lt;b&gt; &amp; \u{e9}</a>"), "{html}");
        assert!(!html.contains("../"));
        assert_eq!((&*page.media_type, page.choice), ("text/html; charset=utf-8", Choice::Accept));
        assert!(page.memory_bytes() == html.len() + json.len());
        // An index file takes precedence; other directories link to their parent, and missing entries are not shown.
        check(&directory, "/dir/", Ok("<p>"));
        assert!(text(&directory, &document(&directory, "/loop/index.html/")).contains("href=\"../\""));
        check(&directory, "/none/", Err(OpenError::NotFound));
        check(&directory, "/file.txt/", Err(OpenError::NotFound));
        assert!(text(&walking, &document(&walking, "/loop/")).contains("index.html/"));
        assert!(directory.open_now(&resource("/")).is_none() && !directory.is_current(&resource("/"), &page));
        // Equal content has an equal tag.
        assert_eq!(document(&directory, "/").entity_tag, page.entity_tag);
        assert_ne!(page.variants[0].entity_tag, page.entity_tag);
    }
}

#[test]
fn a_listing_has_a_limit() {
    let (outer, [directory, _]) = site(&Rules { lists: true, ..Rules::default() });
    for number in 0..listing::ENTRIES_MAX {
        File::create(outer.path().join(format!("site/loop/{number}"))).unwrap();
    }
    let page = document(&directory, "/loop/");
    assert!(text(&directory, &page).contains("Only the first 10000 entries are shown"));
    let listed: serde_json::Value = serde_json::from_str(&text(&directory, &page.variants[0])).unwrap();
    assert_eq!(listed["entries"].as_array().unwrap().len(), listing::ENTRIES_MAX);
    assert_eq!(listed["is_truncated"], true);
}

#[test]
fn what_rules_add() {
    let mut rules = Rules { fields: "X-A: b\r\n".into(), ..Rules::default() };
    rules.cache_control.others = Some("no-cache".into());
    rules.cache_control.by_extension.insert(b"txt".as_slice().into(), "max-age=60".into());
    let (outer, [directory, _]) = site(&rules);
    fs::write(outer.path().join("site/other.bin"), "x").unwrap();
    let fields = |target: &str| {
        let mut head = Vec::new();
        document(&directory, target).append_fields(&mut head);
        String::from_utf8(head).unwrap()
    };
    let (text, other) = (fields("/file.txt"), fields("/other.bin"));
    assert!(text.ends_with("Accept-Ranges: bytes\r\nCache-Control: max-age=60\r\nX-A: b\r\n"), "{text}");
    assert!(other.ends_with("Cache-Control: no-cache\r\nX-A: b\r\n"), "{other}");
    assert!(other.contains("Content-Type: application/octet-stream\r\n"));
}

#[test]
fn roots() {
    let outer = tempfile::tempdir().unwrap();
    let file = outer.path().join("file");
    fs::write(&file, "x").unwrap();
    for (root, expected) in
        [(file, io::ErrorKind::NotADirectory), (outer.path().join("none"), io::ErrorKind::NotFound)]
    {
        assert_eq!(Directory::new(&root, Rules::default()).unwrap_err().kind(), expected);
    }
}
