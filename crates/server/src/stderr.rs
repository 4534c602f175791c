//! Messages of servers that fork.

/// Writes `text` to standard error, but not with `eprintln`: another thread may have held its lock when this process was
/// forked, or may fork meanwhile.
pub fn write(text: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}
