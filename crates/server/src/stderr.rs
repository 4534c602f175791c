//! Messages of servers.

/// Writes `text` to standard error, but not with `eprintln`: that panics if nobody reads it any more, and another thread may
/// have held its lock when this process was forked, or may fork meanwhile.
pub fn write(text: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}
