//! The small site that the wire scripts use. Its dates are fixed, so whole responses can be written down.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Sun, 06 Nov 1994 08:49:37 GMT.
const MODIFIED_SECONDS: u64 = 784_111_777;

/// The size of `large.bin`: more than one send.
pub const LARGE_BYTES: usize = 3_000_000;

/// Creates the site in a new directory.
pub fn site() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    lay_out(root.path());
    root
}

/// Creates the site below `root`.
pub fn lay_out(root: &Path) {
    write(root, "index.html", b"<p>home\n");
    write(root, "hello.txt", b"hello");
    write(root, "a b.txt", b"blank");
    write(root, "empty", b"");
    write(root, "dir/index.html", b"<p>dir\n");
    write(root, "bare/file.txt", b"x");
    write(root, ".git/config", b"secret");
    write(root, "medium.bin", &[b'm'; 20_000]);
    write(root, "large.bin", &large());
}

/// The content of `large.bin`, in which no two sends are alike.
pub fn large() -> Vec<u8> {
    (0..LARGE_BYTES).map(|index| (index / 251) as u8 ^ index as u8).collect()
}

/// Writes one file with the fixed date.
pub fn write(root: &Path, name: &str, content: &[u8]) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    let modified = UNIX_EPOCH + Duration::from_secs(MODIFIED_SECONDS);
    File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}
