//! Landlock: restricts the files that may be opened and the ports of TCP connections.
//!
//! A rule applies to a file or directory as it is now; a later replacement under the same name is a different one.
//! Files that are replaced are therefore allowed by their directory. Open descriptors remain usable.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus,
};

use super::{Connections, Needs};

/// The restricted rights: those of kernels up to Linux 6.15.
const VERSION: ABI = ABI::V7;

/// Paths that every server reads: sources of counters, and the number of processors, which the allocator uses.
const ALWAYS: &[&str] = &["/proc", "/sys/devices/system/cpu"];

/// Configuration and libraries for name lookup. Most are occasionally replaced by files of the same name.
pub const RESOLVER: &[&str] = &[
    "/etc",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/run/nscd",
    "/var/run/nscd",
];

/// The port of DNS over TCP.
const DNS_PORT: u16 = 53;

/// The first version that restricts ports.
const PORTS_VERSION: i64 = 4;

/// Restricts the calling thread; returns whether ports are restricted, too.
///
/// # Errors
/// Why files are not.
pub fn restrict(needs: &Needs) -> Result<Result<(), String>, String> {
    let version = version()?;
    let outcome =
        ruleset(needs).and_then(RulesetCreated::restrict_self).map_err(|error| error.to_string())?;
    match outcome.ruleset {
        RulesetStatus::NotEnforced => Err("the kernel does not enforce it".to_owned()),
        _ if version < PORTS_VERSION => Ok(Err("they need Linux 6.7".to_owned())),
        _ => Ok(Ok(())),
    }
}

/// The kernel's Landlock version.
///
/// # Errors
/// Why the kernel does not offer it.
pub fn version() -> Result<i64, String> {
    /// `LANDLOCK_CREATE_RULESET_VERSION`: only query the version.
    const VERSION: u32 = 1;
    let nothing = std::ptr::null::<u8>();
    // SAFETY: with this flag it makes nothing and reads no memory.
    match unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0usize, VERSION) } {
        -1 => Err(match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EOPNOTSUPP) => "it is not enabled in the kernel: add it to lsm=".to_owned(),
            Some(libc::ENOSYS) => "it needs Linux 5.13, built with Landlock".to_owned(),
            _ => "a sandbox or container forbids it".to_owned(),
        }),
        version => Ok(version),
    }
}

fn ruleset(needs: &Needs) -> Result<RulesetCreated, RulesetError> {
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let writing = AccessFs::from_all(VERSION) & !AccessFs::Execute;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(VERSION))?
        .handle_access(AccessNet::BindTcp)?;
    if needs.connections != Connections::Any {
        rules = rules.handle_access(AccessNet::ConnectTcp)?;
    }
    let mut rules = rules.create()?;
    for path in ALWAYS {
        rules = allow(rules, path, reading)?;
    }
    rules = allow(rules, "/dev/null", reading | AccessFs::WriteFile)?;
    for path in &needs.read {
        rules = allow(rules, path, reading)?;
    }
    for path in &needs.write {
        rules = allow(rules, path, writing)?;
    }
    for path in &needs.append {
        rules = allow(rules, path, AccessFs::WriteFile | AccessFs::MakeReg)?;
    }
    if let Connections::To(ports) = &needs.connections {
        for port in ports.iter().chain([&DNS_PORT]) {
            rules = rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
        }
    }
    Ok(rules)
}

/// Allows `access` to `path` and everything below it, if it exists.
fn allow(
    rules: RulesetCreated,
    path: impl AsRef<std::path::Path>,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let path = path.as_ref();
    let Ok(file) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) };
    rules.add_rule(PathBeneath::new(file, access))
}
