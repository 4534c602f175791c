//! The bare loop that starts a script for each request: what CGI costs at least.

use std::{
    os::fd::BorrowedFd,
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    io::Errno,
    net::{SendFlags, send},
};

const STATUS_LINE: &[u8] = b"HTTP/1.1 200 OK\r\n";

/// Starts the script, reads what it writes, waits for its end, and sends it: the rest of a head, and a body. What a socket
/// does not take at once is more than this is for.
pub fn answer(script: &Path, to: BorrowedFd<'_>, sent: &mut usize) -> rustix::io::Result<bool> {
    let output = Command::new(script)
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
    let response = [STATUS_LINE, &output.stdout].concat();
    *sent = send(to, &response, SendFlags::NOSIGNAL)?;
    if *sent == response.len() { Ok(true) } else { Err(Errno::MSGSIZE) }
}
