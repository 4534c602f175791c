//! Whether the kernel could encrypt in our place (kTLS), so that `sendfile` would serve TLS as well.
//!
//! It is looked for and told of, and not used: docs/tls.md says why.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// Asks the kernel for it on a connection of its own; the error says what it lacks.
pub fn available() -> io::Result<()> {
    // The kernel refuses it to sockets that are not connected.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    const PROTOCOL: &[u8] = b"tls";
    // SAFETY: the option's value is as long as it is said to be, and outlives the call.
    let outcome = unsafe {
        libc::setsockopt(
            client.as_raw_fd(),
            libc::SOL_TCP,
            libc::TCP_ULP,
            PROTOCOL.as_ptr().cast(),
            PROTOCOL.len() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_says_yes_or_that_it_has_no_such_module() {
        if let Err(error) = super::available() {
            assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{error}");
        }
    }
}
