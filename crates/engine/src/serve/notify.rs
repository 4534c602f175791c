//! Notifies a service manager that the server is ready, and which process it is now (sd_notify(3)).

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Reports that this process is the service and serves.
pub fn ready() {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let path = path.as_bytes();
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(OsStr::from_bytes(path)),
    };
    let text = format!("READY=1\nMAINPID={}\n", std::process::id());
    // A failure only concerns the service manager, which has a timeout.
    let _ = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address));
}
