//! Replies of an NFS server.

use sojourn_nfs::{HANDLE_BYTES_MAX, TARGET_BYTES_MAX, reply};

/// A record of any bytes: whatever it says, nothing is longer than it or than its limit.
pub fn record(bytes: &[u8]) {
    let id = bytes.first_chunk().map_or(0, |id| u32::from_be_bytes(*id));
    let Ok(reply) = reply(bytes, id) else { return };
    assert_ne!(reply.port(), Ok(Some(0)));
    if let Ok(Ok(handle)) = reply.mounted() {
        assert!(handle.len() <= HANDLE_BYTES_MAX);
    }
    if let Ok(Ok(found)) = reply.looked_up() {
        assert!(found.handle.len() <= HANDLE_BYTES_MAX);
    }
    if let Ok(Ok(target)) = reply.target() {
        assert!(target.len() <= TARGET_BYTES_MAX.min(bytes.len()));
    }
    if let Ok(Ok(part)) = reply.part() {
        assert!(part.bytes.len() < bytes.len());
    }
    if let Ok(Err(status)) = reply.attributes() {
        assert_ne!(status.0, 0);
    }
}
