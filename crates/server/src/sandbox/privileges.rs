//! Capabilities: of root's privileges a server that was not told to become another user keeps those of reading its files,
//! and neither it nor a program that it starts can ever have others.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// What is kept by one that has it: reading files of other users, and writing its log and its cache.
const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// # Errors
/// What could not be given up.
pub fn give_up() -> Result<(), String> {
    let failed = |error: Errno| error.to_string();
    set_no_new_privs(true).map_err(failed)?;
    let own = capabilities(None).map_err(failed)?;
    if own.permitted.is_empty() {
        // Without new privileges there is no way to any.
        return Ok(());
    }
    if own.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().iter().filter(|it| !KEPT.contains(*it)) {
            // One that the kernel does not know nobody has.
            if capability_is_in_bounding_set(capability).unwrap_or(false) {
                remove_capability_from_bounding_set(capability).map_err(failed)?;
            }
        }
    }
    // Kernels before 4.3 have none.
    let _ = clear_ambient_capability_set();
    let kept = CapabilitySets {
        effective: own.effective & KEPT,
        permitted: own.permitted & KEPT,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, kept).map_err(failed)
}
