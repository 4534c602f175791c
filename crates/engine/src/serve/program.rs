//! The program that `--architecture inetd` executes for each connection: this one, configured as the server is.
//!
//! It reads its configuration from a file each time: the given one, so that a change takes effect with the next
//! connection, or a memory file with the command line's options.

use std::ffi::{CString, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use anyhow::Context;
use rustix::fs::{MemfdFlags, memfd_create};
use sojourn_server::Program;

use super::config;

/// The program for a server that was started with `words`.
pub fn per_connection(command: &clap::Command, words: &[OsString]) -> anyhow::Result<Program> {
    let path = std::env::current_exe().context("cannot find this program's file")?;
    let path = CString::new(path.into_os_string().into_vec())?;
    let mut arguments = words.to_vec();
    let mut inherited = None;
    if let Some(text) = config::of_words(command, words) {
        let file = memfd_create("configuration", MemfdFlags::CLOEXEC)?;
        rustix::io::write(&file, text.as_bytes())?;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        arguments =
            [&words[0], &"serve".into(), &"--config".into(), &name.into()].map(OsString::clone).into();
        inherited = Some(Arc::new(file));
    }
    let arguments = arguments.iter().map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?;
    Ok(Program { path, arguments, inherited })
}
