//! Files of an NFS server (version 3) as objects of a store, without a mount.
//!
//! Paths are resolved here, name by name, so neither `..` nor a symbolic link can leave the export: the server is never
//! asked for the parent of a directory. Directories and links are remembered as long as attributes are trusted at first;
//! the name of a file is looked up whenever it is opened. What is read of a file is of the version that was opened: every
//! reply to READ comes with the attributes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sojourn_http::HttpDate;
use sojourn_nfs::{Attributes, Call, FileKind, Handle, LookedUp, NAME_BYTES_MAX, Reply, Status};

mod connection;
#[cfg(test)]
mod tests;

pub use connection::Export;
use connection::{Caller, READ_BYTES};

use super::client::Timeouts;
use super::store::{Object, Opened, Store, StoreError, Version};
use crate::lru::{Lru, Weight};

/// The memory budget of what is remembered of paths, and of an entry beside its path, which is held twice.
const PATHS_BYTES_MAX: usize = 16 << 20;
const ENTRY_BYTES: usize = 256;

/// How many symbolic links a path may lead through: as many as on Linux.
const LINKS_MAX: usize = 40;

/// How often the start of a file is read that changes meanwhile.
const CHANGES_MAX: usize = 3;

/// The files below an export.
#[derive(Debug)]
pub struct NfsStore {
    caller: Caller,
    follows_links: bool,
    trusted: Trusted,
    paths: Mutex<Paths>,
}

/// How long directories and links are trusted at first and at most: each look-up that finds the same doubles the time.
#[derive(Clone, Copy, Debug)]
pub struct Trusted {
    pub min: Duration,
    pub max: Duration,
}

/// What is at paths below the export, without links in them.
type Paths = Lru<Box<[u8]>, Known>;

/// What is at a path, and how long it is trusted.
#[derive(Clone, Debug)]
struct Known {
    node: Node,
    fresh_until: Instant,
    lifetime: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Directory(Handle),
    Link(Box<[u8]>),
    File(Handle),
}

/// Why nothing was found.
enum Absence {
    /// A remembered handle is not valid any more.
    Stale(Status),
    Error(StoreError),
}

impl From<StoreError> for Absence {
    fn from(error: StoreError) -> Absence {
        Absence::Error(error)
    }
}

impl NfsStore {
    /// The files of `export`; symbolic links in it are followed if `follows_links`. Up to `idle_max` connections are
    /// kept.
    pub fn new(
        export: Export,
        timeouts: Timeouts,
        idle_max: usize,
        follows_links: bool,
        trusted: Trusted,
    ) -> NfsStore {
        let paths = Mutex::new(Lru::new(Weight { bytes: PATHS_BYTES_MAX, count: usize::MAX }));
        NfsStore { caller: Caller::new(export, timeouts, idle_max), follows_links, trusted, paths }
    }

    /// The file that `key` names, with attributes if it was just looked up. `is_opened` means that a remembered file will
    /// do, because its version is checked.
    fn file(
        &self,
        key: &[u8],
        is_opened: bool,
        deadline: Instant,
    ) -> Result<(Handle, Option<Attributes>), StoreError> {
        match self.resolve(key, is_opened, deadline) {
            Err(Absence::Stale(_)) => {
                // A directory has been replaced, or the whole export.
                *self.paths() = Lru::new(Weight { bytes: PATHS_BYTES_MAX, count: usize::MAX });
                self.caller.forget_root();
                self.resolve(key, is_opened, deadline)
            }
            outcome => outcome,
        }
        .map_err(|absence| match absence {
            Absence::Stale(status) => StoreError::Failed(status.to_string()),
            Absence::Error(error) => error,
        })
    }

    fn resolve(
        &self,
        key: &[u8],
        is_opened: bool,
        deadline: Instant,
    ) -> Result<(Handle, Option<Attributes>), Absence> {
        let names = |path: &[u8]| path.split(|byte| *byte == b'/').rev().map(Box::from).collect::<Vec<_>>();
        let mut ahead: Vec<Box<[u8]>> = names(key);
        // The directories down to the current one, each with the length of its path.
        let mut directories = vec![(self.caller.root(deadline)?, 0)];
        let (mut path, mut links) = (Vec::new(), 0);
        while let Some(name) = ahead.pop() {
            match &*name {
                b"" | b"." => continue,
                b".." => {
                    directories.pop();
                    let (_, length) = directories.last().ok_or(StoreError::NotFound)?;
                    path.truncate(*length);
                    continue;
                }
                name if name.len() > NAME_BYTES_MAX => return Err(StoreError::NotFound.into()),
                _ => {}
            }
            let (directory, length) = directories.last().expect("the root is never removed");
            let length = *length;
            path.extend_from_slice(if path.is_empty() { b"" } else { b"/" });
            path.extend_from_slice(&name);
            let (node, attributes) = match self.known(&path, is_opened && ahead.is_empty()) {
                Some(node) => (node, None),
                None => self.look_up(directory, &name, &path, deadline)?,
            };
            match node {
                Node::Directory(handle) => directories.push((handle, path.len())),
                Node::File(handle) if ahead.is_empty() => return Ok((handle, attributes)),
                Node::Link(target)
                    if self.follows_links && links < LINKS_MAX && !target.starts_with(b"/") =>
                {
                    links += 1;
                    path.truncate(length);
                    ahead.extend(names(&target));
                }
                Node::File(_) | Node::Link(_) => break,
            }
        }
        Err(StoreError::NotFound.into())
    }

    /// What is remembered of `path`; a file only if `with_file`.
    fn known(&self, path: &[u8], with_file: bool) -> Option<Node> {
        let mut paths = self.paths();
        let known = paths.get(path)?;
        let is_usable = match known.node {
            Node::File(_) => with_file,
            Node::Directory(_) | Node::Link(_) => Instant::now() < known.fresh_until,
        };
        is_usable.then(|| known.node.clone())
    }

    fn look_up(
        &self,
        directory: &Handle,
        name: &[u8],
        path: &[u8],
        deadline: Instant,
    ) -> Result<(Node, Option<Attributes>), Absence> {
        let call = Call::LookUp { directory, name };
        let LookedUp { handle, attributes } =
            self.caller.call(call, deadline, |reply| reply.looked_up())?.map_err(absence)?;
        let attributes = match attributes {
            Some(attributes) => attributes,
            None => self.attributes(&handle, deadline)?,
        };
        let node = match attributes.kind {
            FileKind::File => Node::File(handle),
            FileKind::Directory => Node::Directory(handle),
            FileKind::Link => {
                let call = Call::ReadLink { link: &handle };
                let target = |reply: Reply<'_>| Ok(reply.target()?.map(Box::from));
                Node::Link(self.caller.call(call, deadline, target)?.map_err(absence)?)
            }
            FileKind::Other => {
                return Err(StoreError::Forbidden("neither a file nor a directory".to_owned()).into());
            }
        };
        let further = match &node {
            Node::Directory(handle) | Node::File(handle) => handle.len(),
            Node::Link(target) => target.len(),
        };
        let weight = Weight { bytes: ENTRY_BYTES + 2 * path.len() + further, count: 1 };
        let Trusted { min, max } = self.trusted;
        let mut paths = self.paths();
        let before = paths.get(path).filter(|before| before.node == node);
        let lifetime = before.map_or(min, |before| (2 * before.lifetime).min(max));
        let known = Known { node: node.clone(), fresh_until: Instant::now() + lifetime, lifetime };
        paths.insert(path.into(), known, weight);
        drop(paths);
        Ok((node, Some(attributes)))
    }

    fn attributes(&self, handle: &Handle, deadline: Instant) -> Result<Attributes, Absence> {
        let call = Call::Attributes { of: handle };
        self.caller.call(call, deadline, |reply| reply.attributes())?.map_err(absence)
    }

    /// Reads up to `count` bytes and gives them to `take`. Returns the version that they are of.
    fn part(
        &self,
        file: &Handle,
        offset: u64,
        count: usize,
        deadline: Instant,
        mut take: impl FnMut(&[u8]),
    ) -> Result<Version, Absence> {
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(READ_BYTES);
        let call = Call::Read { file, offset, count };
        let results = |reply: Reply<'_>| {
            Ok(reply.part()?.map(|part| {
                take(part.bytes);
                part.attributes
            }))
        };
        let attributes = match self.caller.call(call, deadline, results)?.map_err(absence)? {
            Some(attributes) => attributes,
            None => self.attributes(file, deadline)?,
        };
        Ok(version(&attributes))
    }

    /// Reads until `into` is full. Returns false if the file is not, or no longer, of this version.
    fn fill(
        &self,
        file: &Handle,
        only: &Version,
        offset: u64,
        into: &mut [u8],
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let mut filled = 0;
        while filled < into.len() {
            let room = &mut into[filled..];
            let (count, mut length) = (room.len(), 0);
            let read = self.part(file, offset + filled as u64, count, deadline, |bytes| {
                length = bytes.len().min(count);
                room[..length].copy_from_slice(&bytes[..length]);
            });
            match read {
                Ok(version) if version == *only && length > 0 => filled += length,
                Ok(_) | Err(Absence::Stale(_)) => return Ok(false),
                Err(Absence::Error(error)) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Ignores poisoning: a cache is usable after a panic.
    fn paths(&self) -> MutexGuard<'_, Paths> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for NfsStore {
    fn open(&self, key: &[u8], known: Option<&Version>, bytes_max: u64) -> Result<Opened, StoreError> {
        let deadline = self.caller.deadline();
        for _ in 0..CHANGES_MAX {
            let (file, attributes) = self.file(key, false, deadline)?;
            let mut version = version(&attributes.expect("what is not remembered was looked up"));
            if known == Some(&version) {
                return Ok(Opened::Unchanged);
            }
            let mut start = Vec::new();
            if version.size > 0 {
                // Of however much there is by now: the reply says which version it is of.
                let count = usize::try_from(bytes_max).unwrap_or(usize::MAX);
                match self.part(&file, 0, count, deadline, |bytes| start.extend_from_slice(bytes)) {
                    Ok(read) => version = read,
                    Err(Absence::Stale(_)) => continue,
                    Err(Absence::Error(error)) => return Err(error),
                }
            }
            let received = start.len();
            start.resize(usize::try_from(version.size.min(bytes_max)).unwrap_or(usize::MAX), 0);
            // A file that was shortened after reading and before its attributes were taken is read again.
            if received <= start.len()
                && self.fill(&file, &version, received as u64, &mut start[received..], deadline)?
            {
                return Ok(Opened::Object(Object {
                    version,
                    media_type: None,
                    content_encoding: None,
                    cache_control: None,
                    start,
                }));
            }
        }
        Err(StoreError::Failed("the file changes while it is read".to_owned()))
    }

    fn read(&self, key: &[u8], version: &Version, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let deadline = self.caller.deadline();
        for is_opened in [true, false] {
            // The remembered file may be older than the version.
            let (file, _) = self.file(key, is_opened, deadline)?;
            if self.fill(&file, version, offset, into, deadline)? {
                return Ok(());
            }
        }
        Err(StoreError::Changed)
    }
}

/// The version of a file: like that of a local one, with its number, because a file may be replaced by one with equal
/// times.
fn version(attributes: &Attributes) -> Version {
    let Attributes { size, number, modified, .. } = attributes;
    let (seconds, nanoseconds) = (modified.seconds, modified.nanoseconds);
    Version {
        size: *size,
        entity_tag: Some(format!("\"{seconds:x}.{nanoseconds:x}-{size:x}-{number:x}\"").into()),
        modified: Some(HttpDate::from_seconds(seconds.into())),
    }
}

fn absence(status: Status) -> Absence {
    match status {
        status if status.is_stale() => Absence::Stale(status),
        Status::NO_ENTRY | Status::NO_DIRECTORY | Status::NAME_TOO_LONG => StoreError::NotFound.into(),
        Status::ACCESS | Status::PERMISSION => StoreError::Forbidden(status.to_string()).into(),
        other => StoreError::Failed(other.to_string()).into(),
    }
}
