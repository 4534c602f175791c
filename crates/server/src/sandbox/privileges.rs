//! Capabilities: a server that stays root keeps only the privileges for reading and writing its files, and neither it
//! nor a program that it starts can gain others.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// The capabilities to keep, if present: for reading other users' files, and for writing its log and cache.
const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// # Errors
/// What could not be given up.
pub fn drop_privileges() -> Result<(), String> {
    let failed = |error: Errno| error.to_string();
    set_no_new_privs(true).map_err(failed)?;
    let own = capabilities(None).map_err(failed)?;
    if own.permitted.is_empty() {
        // A process without capabilities that cannot gain privileges needs no further step.
        return Ok(());
    }
    if own.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().iter().filter(|it| !KEPT.contains(*it)) {
            // Capabilities unknown to the kernel count as absent.
            if capability_is_in_bounding_set(capability).unwrap_or(false) {
                remove_capability_from_bounding_set(capability).map_err(failed)?;
            }
        }
    }
    // Kernels before 4.3 have no ambient capabilities.
    let _ = clear_ambient_capability_set();
    let kept = CapabilitySets {
        effective: own.effective & KEPT,
        permitted: own.permitted & KEPT,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, kept).map_err(failed)
}
