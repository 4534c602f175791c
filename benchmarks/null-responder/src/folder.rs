//! Prepared responses for the files of a folder, chosen by the path of the request.

use std::{
    collections::HashMap,
    ffi::OsStr,
    io,
    os::{fd::BorrowedFd, unix::ffi::OsStrExt},
    path::Path,
};

use crate::{Connection, epoll::Answers, response::Response};

/// Below this many bytes of a body, copying it with its head into the socket costs less than a second call.
const SENDFILE_BYTES_MIN: usize = 32 * 1024;
/// The suffixes of siblings that are compressed, the preferred first, with their content codings.
const CODINGS: [(&str, &str); 2] = [("br", "br"), ("gz", "gzip")];

/// How bodies are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// Every response in one write.
    Write,
    /// Long bodies with sendfile(2).
    BySize,
}

/// A response per file; where it has a compressed sibling, that one.
pub struct Folder {
    responses: Vec<Response>,
    by_path: HashMap<Vec<u8>, usize>,
    sending: Sending,
}

impl Folder {
    /// The files of a folder; their paths are `/FOLDER/FILE`.
    pub fn of(folder: &Path, connection: Connection, sending: Sending) -> io::Result<Folder> {
        let mut found = Folder { responses: Vec::new(), by_path: HashMap::new(), sending };
        let prefix = folder.file_name().unwrap_or_default().as_bytes();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if CODINGS.iter().any(|(suffix, _)| path.extension() == Some(OsStr::new(suffix))) {
                continue;
            }
            let name = path.file_name().unwrap_or_default();
            let siblings = CODINGS.map(|(suffix, coding)| {
                let sibling = [name.as_bytes(), b".", suffix.as_bytes()].concat();
                (path.with_file_name(OsStr::from_bytes(&sibling)), coding)
            });
            let response = match siblings.iter().find(|(sibling, _)| sibling.is_file()) {
                Some((sibling, coding)) => {
                    let fields = format!("Content-Encoding: {coding}\r\nVary: Accept-Encoding\r\n");
                    Response::of(sibling, connection, &fields)?
                }
                None => Response::of(&path, connection, "")?,
            };
            let address = [b"/", prefix, b"/", name.as_bytes()].concat();
            found.by_path.insert(address, found.responses.len());
            found.responses.push(response);
        }
        if found.responses.is_empty() {
            return Err(io::Error::other("the folder has no files"));
        }
        Ok(found)
    }
}

impl Answers for Folder {
    /// The path ends at the second space. An unknown one gets the first response, which the generator takes for an error.
    fn choose(&self, request: &[u8]) -> usize {
        let path = request.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
        self.by_path.get(path).copied().unwrap_or(0)
    }

    fn send(&self, response: usize, to: BorrowedFd<'_>, sent: &mut usize) -> rustix::io::Result<bool> {
        let response = &self.responses[response];
        if self.sending == Sending::BySize && response.body_length() >= SENDFILE_BYTES_MIN {
            response.send_file(to, sent)
        } else {
            response.write(to, sent)
        }
    }
}
