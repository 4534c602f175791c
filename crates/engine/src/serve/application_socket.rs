//! The socket of an application that this server runs: in a directory of its own, which goes with it.
//!
//! A server that is killed cannot remove the directory. The next one does: each holds a lock on its own as long as it lives.

use std::fs::{DirBuilder, File, read_dir, remove_dir, remove_file};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::process::geteuid;

/// How the names of such directories begin.
const PREFIX: &str = "sojourn-app-";

/// The name of the socket in its directory.
const SOCKET: &str = "socket";

/// Connections that may wait for an application to accept them.
const BACKLOG: i32 = 4096;

/// A directory without a lock is left alone so long: its server may have just made it.
const YOUNG: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct ApplicationSocket {
    directory: PathBuf,
    /// Open, and locked.
    _lock: OwnedFd,
}

impl ApplicationSocket {
    /// Makes one that only this user can reach, and removes what servers have left that were killed.
    pub fn listen() -> anyhow::Result<(ApplicationSocket, OwnedFd)> {
        let parent = std::env::temp_dir();
        remove_abandoned(&parent, YOUNG);
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let directory = parent.join(format!("{PREFIX}{:016x}", u64::from_ne_bytes(random)));
        DirBuilder::new().mode(0o700).create(&directory).map_err(|error| {
            anyhow!(
                "cannot make {}: {error}\nhint: TMPDIR names a directory for temporary files",
                directory.display()
            )
        })?;
        let lock = locked(&directory).with_context(|| format!("cannot lock {}", directory.display()))?;
        let socket = ApplicationSocket { directory, _lock: lock };
        let path = socket.path();
        let listening = listening(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
        Ok((socket, listening))
    }

    pub fn path(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }
}

impl Drop for ApplicationSocket {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// The directory, opened and locked; links are not followed.
fn locked(directory: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = open(directory, flags, Mode::empty())?;
    flock(&opened, FlockOperation::NonBlockingLockExclusive)?;
    Ok(opened)
}

/// Removes the directories that no server holds. That another cannot be removed is no reason not to start.
fn remove_abandoned(parent: &Path, young: Duration) {
    let Ok(entries) = read_dir(parent) else { return };
    for entry in
        entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()))
    {
        let path = entry.path();
        let is_old = |file: &File| {
            let metadata = file.metadata().ok()?;
            let age = metadata.modified().ok()?.elapsed().ok()?;
            (metadata.uid() == geteuid().as_raw() && age >= young).then_some(())
        };
        if let Ok(lock) = locked(&path)
            && is_old(&File::from(lock)).is_some()
        {
            remove(&path);
        }
    }
}

/// Nothing else is in it.
fn remove(directory: &Path) {
    let _ = remove_file(directory.join(SOCKET));
    let _ = remove_dir(directory);
}

/// A socket that applications accept connections from, each waiting for the next.
fn listening(path: &Path) -> anyhow::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_server_has_left_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join(SOCKET), "").unwrap();
            path
        };
        let [left, held, other] = ["sojourn-app-1", "sojourn-app-2", "other-app-3"].map(make);
        std::os::unix::fs::symlink(&other, parent.path().join("sojourn-app-4")).unwrap();
        let lock = locked(&held).unwrap();
        remove_abandoned(parent.path(), Duration::from_secs(60));
        assert!(left.exists(), "it may be a server's that is just starting");
        remove_abandoned(parent.path(), Duration::ZERO);
        assert!(!left.exists() && held.exists() && other.join(SOCKET).exists());
        drop(lock);
        remove_abandoned(parent.path(), Duration::ZERO);
        assert!(!held.exists());
    }
}
