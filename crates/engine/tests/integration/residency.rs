//! Tests that a server does not start if the requested residency test cannot work.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::engine::{ENGINE, Server};
use rustix::process::geteuid;

/// The user `nobody`, who owns no file.
const STRANGER: u32 = 65534;

#[test]
fn mincore_is_refused_where_it_would_lie() {
    if !geteuid().is_root() {
        // Not by a macro, whose output is shown only when a test fails.
        return writeln!(std::io::stderr(), "skipped: becoming somebody else needs root").unwrap();
    }
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(root.path().join("index.html"), "home").unwrap();
    // The user may lack access to the build directory.
    let program = root.path().join("program");
    fs::copy(ENGINE, &program).unwrap();
    let serve = || {
        let mut command = Command::new(&program);
        command.arg("serve").arg(root.path()).args(["--listen", "127.0.0.1:0"]);
        command.uid(STRANGER).gid(STRANGER).current_dir("/");
        command
    };

    let refused = serve().args(["--residency", "mincore"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    let (error, hint) = said.split_once('\n').unwrap();
    assert!(
        error.starts_with("error: the residency test mincore cannot tell what is in memory of "),
        "{said}"
    );
    assert!(hint.starts_with("hint: use --residency nowait"), "{said}");

    assert!(Server::run(&mut serve()).get("/").ends_with("home"));
    let by_owner = Server::start("amped", root.path(), &["--residency", "mincore"]);
    assert!(by_owner.get("/").ends_with("home"));
}
