//! A local directory as an origin.
//!
//! The root is held open and every path is resolved below it by the kernel (`openat2` with `RESOLVE_BENEATH`),
//! so neither `..` nor a symbolic link leads outside. Kernels and sandboxes without `openat2` get a walk,
//! component by component, that follows no links at all.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2, statat};
use rustix::io::{Errno, pread};
use sojourn_http::SitePath;

use super::{Found, OpenError, Origin};
use crate::document::{Document, Identity};

/// The file that stands for its directory.
const INDEX: &[u8] = b"index.html";

/// Tries when `openat2` reports a race with a rename (`EAGAIN`).
const RACES_MAX: usize = 8;

/// Without `NONBLOCK` opening a FIFO would wait for its writer; it has no effect on regular files.
const OPEN_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// How the kernel resolves paths for us.
const RESOLVE_FLAGS: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// The longest name of a file: longer ones need not be tried, which would allocate.
const NAME_BYTES_MAX: usize = 255;

/// The regular files below one directory.
#[derive(Debug)]
pub struct Directory {
    root: OwnedFd,
    shows_hidden: bool,
    resolves_beneath: bool,
}

impl Directory {
    /// Opens `root`. Unless `shows_hidden`, paths with a segment that begins with a dot are not found.
    pub fn new(root: &Path, shows_hidden: bool) -> io::Result<Directory> {
        let root = open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        // Listing is not needed to serve, but searching is: find out now, not at the first request.
        statat(&root, ".", AtFlags::empty())?;
        rustix::fs::accessat(&root, ".", rustix::fs::Access::EXEC_OK, AtFlags::EACCESS)?;
        let resolves_beneath =
            openat2(&root, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH).is_ok();
        Ok(Directory { root, shows_hidden, resolves_beneath })
    }

    /// The path of the file that `path` stands for, below the root.
    pub(crate) fn file_path(&self, path: &SitePath<'_>) -> Result<CString, OpenError> {
        if path.is_hidden() && !self.shows_hidden {
            return Err(OpenError::NotFound);
        }
        let index = if path.is_directory() { INDEX } else { b"" };
        CString::new([path.as_bytes(), index].concat()).map_err(|_| OpenError::NotFound)
    }

    /// Opens what [`file_path`](Self::file_path) gave. It allocates nothing: helper processes call it.
    pub(crate) fn open_file(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        if self.resolves_beneath { self.open_beneath(path) } else { self.open_by_steps(path.to_bytes()) }
    }

    /// What `path` names, now that its file is open, or why it is not.
    pub(crate) fn found(
        &self,
        path: &SitePath<'_>,
        file_path: &CStr,
        opened: Result<OwnedFd, Errno>,
    ) -> Result<Found, OpenError> {
        let file = opened.map_err(refusal)?;
        let stat = fstat(&file).map_err(refusal)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                Ok(Found::Document(Arc::new(Document::new(file, file_path.to_bytes(), &stat))))
            }
            // A directory called index.html is not worth a redirection to itself.
            FileType::Directory if path.is_directory() => Err(OpenError::NotFound),
            FileType::Directory => Ok(Found::Directory),
            _ => Err(OpenError::Forbidden),
        }
    }

    /// The root: with it and the path, whoever has it can open files.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    fn open_beneath(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        for _ in 0..RACES_MAX {
            match openat2(&self.root, path, OPEN_FLAGS, Mode::empty(), RESOLVE_FLAGS) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                outcome => return outcome,
            }
        }
        Err(Errno::AGAIN)
    }

    fn open_by_steps(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let (parents, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&path[..0], path),
        };
        let mut parent: Option<OwnedFd> = None;
        for step in parents.split(|byte| *byte == b'/').filter(|step| !step.is_empty()) {
            if step.len() > NAME_BYTES_MAX {
                return Err(Errno::NAMETOOLONG);
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            parent = Some(openat(parent.as_ref().unwrap_or(&self.root), step, flags, Mode::empty())?);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        openat(parent.as_ref().unwrap_or(&self.root), name, OPEN_FLAGS | OFlags::NOFOLLOW, Mode::empty())
    }
}

impl Origin for Directory {
    fn open(&self, path: &SitePath<'_>) -> Result<Found, OpenError> {
        let file_path = self.file_path(path)?;
        self.found(path, &file_path, self.open_file(&file_path))
    }

    fn open_now(&self, path: &SitePath<'_>) -> Option<Result<Found, OpenError>> {
        if !self.resolves_beneath {
            return None;
        }
        let file_path = match self.file_path(path) {
            Ok(file_path) => file_path,
            Err(error) => return Some(Err(error)),
        };
        let resolve = RESOLVE_FLAGS | ResolveFlags::CACHED;
        match openat2(&self.root, &*file_path, OPEN_FLAGS, Mode::empty(), resolve) {
            // INVAL: before Linux 5.12. In both cases another attempt will tell.
            Err(Errno::AGAIN | Errno::INTR | Errno::INVAL) => None,
            opened => Some(self.found(path, &file_path, opened)),
        }
    }

    fn directory(&self) -> Option<&Directory> {
        Some(self)
    }

    fn is_current(&self, document: &Document) -> bool {
        // Only compared, never opened: that this follows links out of the root shows nobody anything.
        statat(&self.root, &*document.file_path, AtFlags::empty())
            .is_ok_and(|stat| Identity::of(&stat) == document.identity)
    }

    fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match pread(&document.file, &mut into[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }
}

fn refusal(error: Errno) -> OpenError {
    match error {
        // XDEV: a link or `..` led outside; that must look like nothing at all.
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::XDEV | Errno::INVAL => {
            OpenError::NotFound
        }
        Errno::ACCESS | Errno::PERM | Errno::NXIO | Errno::NODEV => OpenError::Forbidden,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => OpenError::Busy,
        other => OpenError::Failed(other.raw_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A site with everything that can go wrong in it, opened both ways.
    fn site() -> (tempfile::TempDir, [Directory; 2]) {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("site");
        fs::create_dir_all(root.join("dir")).unwrap();
        fs::create_dir_all(root.join("loop/index.html")).unwrap();
        fs::write(outer.path().join("secret"), "secret").unwrap();
        fs::write(root.join("file.txt"), "hello").unwrap();
        fs::write(root.join("dir/index.html"), "<p>").unwrap();
        fs::write(root.join(".hidden"), "x").unwrap();
        symlink("../secret", root.join("up")).unwrap();
        symlink(outer.path().join("secret"), root.join("absolute")).unwrap();
        symlink("..", root.join("dir/parent")).unwrap();
        rustix::fs::mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let beneath = Directory::new(&root, false).unwrap();
        let by_steps = Directory { resolves_beneath: false, ..Directory::new(&root, false).unwrap() };
        (outer, [beneath, by_steps])
    }

    fn check(directory: &Directory, target: &str, expected: Result<&str, OpenError>) {
        let path = SitePath::decode(target.as_bytes()).unwrap();
        let found = directory.open(&path).map(|found| match found {
            Found::Directory => "a directory".to_owned(),
            Found::Document(document) => {
                let mut text = vec![0; 64];
                let length = directory.read(&document, 0, &mut text).unwrap();
                String::from_utf8(text[..length].to_vec()).unwrap()
            }
        });
        assert_eq!(found.as_deref().map_err(|error| *error), expected, "{target}");
    }

    #[test]
    fn paths() {
        let (_outer, directories) = site();
        let long = format!("/{}", "a".repeat(300));
        for directory in &directories {
            check(directory, "/file.txt", Ok("hello"));
            check(directory, "/dir/", Ok("<p>"));
            check(directory, "/dir/index.html", Ok("<p>"));
            check(directory, "/dir", Ok("a directory"));
            for missing in ["/", "/none", "/file.txt/", "/file.txt/x", "/.hidden", "/loop/", &long] {
                check(directory, missing, Err(OpenError::NotFound));
            }
            check(directory, "/fifo", Err(OpenError::Forbidden));
        }
    }

    #[test]
    fn a_name_that_the_kernel_remembers_is_opened_without_waiting() {
        let (outer, [directory, _]) = site();
        let open_now = |target: &str| directory.open_now(&SitePath::decode(target.as_bytes()).unwrap());
        fs::metadata(outer.path().join("site/file.txt")).unwrap();
        assert!(matches!(open_now("/file.txt"), Some(Ok(Found::Document(document))) if document.size == 5));
        assert!(matches!(open_now("/.hidden"), Some(Err(OpenError::NotFound))));
        // Nobody has asked for this one yet.
        assert!(open_now("/new").is_none());
        assert!(matches!(directory.open(&SitePath::decode(b"/new").unwrap()), Err(OpenError::NotFound)));
    }

    #[test]
    fn links_never_lead_outside() {
        let (_outer, directories) = site();
        for directory in &directories {
            for link in ["/up", "/absolute", "/dir/parent/../secret", "/dir/parent/up"] {
                check(directory, link, Err(OpenError::NotFound));
            }
        }
        check(&directories[0], "/dir/parent/file.txt", Ok("hello"));
    }

    #[test]
    fn versions() {
        let (outer, [directory, _]) = site();
        let path = SitePath::decode(b"/file.txt").unwrap();
        let Ok(Found::Document(document)) = directory.open(&path) else { panic!("it is there") };
        assert!(directory.is_current(&document));
        let file = outer.path().join("site/file.txt");
        fs::write(&file, "longer than before").unwrap();
        assert!(!directory.is_current(&document));
        fs::remove_file(&file).unwrap();
        assert!(!directory.is_current(&document));
    }

    #[test]
    fn roots() {
        let outer = tempfile::tempdir().unwrap();
        let file = outer.path().join("file");
        fs::write(&file, "x").unwrap();
        for (root, expected) in
            [(file, io::ErrorKind::NotADirectory), (outer.path().join("none"), io::ErrorKind::NotFound)]
        {
            assert_eq!(Directory::new(&root, false).unwrap_err().kind(), expected);
        }
    }
}
