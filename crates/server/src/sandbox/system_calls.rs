//! seccomp: the allowed system calls of a started server. All others fail with EPERM, including those that execute
//! programs, mount, trace, load modules, change the clock or the identity, or create namespaces.

use std::collections::BTreeMap;

use libc::c_long;
use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

const MEMORY: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_membarrier,
    libc::SYS_memfd_create,
];

const FILES: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getdents64,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_copy_file_range,
    libc::SYS_ioctl,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_readlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_utimensat,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_getcwd,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    CACHESTAT,
];

/// The number is the same on all architectures; the C library does not list it.
const CACHESTAT: c_long = 451;

const SOCKETS: &[c_long] = &[
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    // The accept queue is shortened under overload.
    libc::SYS_listen,
];

const EVENTS: &[c_long] = &[
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
];

/// Only for servers that use them: much of the kernel is behind them.
const IO_URING: &[c_long] =
    &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

const PROCESSES: &[c_long] = &[
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
    libc::SYS_prlimit64,
    libc::SYS_prctl,
    libc::SYS_capget,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_restart_syscall,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
];

const SIGNALS: &[c_long] = &[
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
    libc::SYS_sigaltstack,
];

const TIME: &[c_long] = &[
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
];

/// Older variants of the calls above, which the C library still uses.
#[cfg(target_arch = "x86_64")]
const OF_THE_ARCHITECTURE: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_link,
    libc::SYS_readlink,
    libc::SYS_chmod,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_getdents,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_arch_prctl,
    libc::SYS_time,
    libc::SYS_getrlimit,
];
#[cfg(target_arch = "aarch64")]
const OF_THE_ARCHITECTURE: &[c_long] = &[libc::SYS_renameat];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OF_THE_ARCHITECTURE: &[c_long] = &[];

/// Socket families; the C library uses the second to find out this machine's addresses.
const LOCAL_FAMILIES: [i32; 2] = [libc::AF_UNIX, libc::AF_NETLINK];

/// Families whose new sockets could listen, at a port that the kernel chooses, if nothing was bound.
const INTERNET_FAMILIES: [i32; 2] = [libc::AF_INET, libc::AF_INET6];

/// A new thread or process in its own namespace would be root there.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// Restricts the calling thread, and those that it starts. `internet_sockets`: they may make sockets of the Internet
/// families; `io_uring`: they may use it.
///
/// # Errors
/// Why it is not.
pub fn restrict(internet_sockets: bool, io_uring: bool) -> Result<(), String> {
    let architecture = architecture()?;
    let denied = |error: Errno| SeccompAction::Errno(error.raw_os_error() as u32);
    let compile = |calls, others, listed| -> Result<BpfProgram, String> {
        let filter = SeccompFilter::new(calls, others, listed, architecture);
        filter.and_then(TryInto::try_into).map_err(|error| error.to_string())
    };
    let filters = [
        // The C library then falls back to `clone`, whose flags the filter can inspect.
        compile([(libc::SYS_clone3, vec![])].into(), SeccompAction::Allow, denied(Errno::NOSYS))?,
        compile(allowed(internet_sockets, io_uring)?, denied(Errno::PERM), SeccompAction::Allow)?,
    ];
    filters.iter().try_for_each(|filter| apply_filter(filter)).map_err(|error| error.to_string())
}

/// # Errors
/// Why the kernel does not offer it.
pub fn offered() -> Result<(), String> {
    // SAFETY: it only answers.
    match unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) } {
        -1 => Err("the kernel was built without it".to_owned()),
        _ => architecture().map(drop),
    }
}

fn architecture() -> Result<TargetArch, String> {
    let name = std::env::consts::ARCH;
    TargetArch::try_from(name).map_err(|_| format!("there is no filter for {name}"))
}

/// The allowed calls, some with conditions on their arguments.
fn allowed(internet_sockets: bool, io_uring: bool) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, String> {
    let io_uring = if io_uring { IO_URING } else { &[] };
    let lists = [MEMORY, FILES, SOCKETS, EVENTS, PROCESSES, SIGNALS, TIME, OF_THE_ARCHITECTURE, io_uring];
    let mut calls: BTreeMap<_, _> = lists.concat().into_iter().map(|call| (call, vec![])).collect();
    let rule = |operator, value| {
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, value);
        condition.and_then(|condition| SeccompRule::new(vec![condition])).map_err(|error| error.to_string())
    };
    let internet = if internet_sockets { &INTERNET_FAMILIES[..] } else { &[] };
    let families = LOCAL_FAMILIES.iter().chain(internet).map(|family| rule(SeccompCmpOp::Eq, *family as u64));
    calls.insert(libc::SYS_socket, families.collect::<Result<_, _>>()?);
    calls.insert(libc::SYS_clone, vec![rule(SeccompCmpOp::MaskedEq(NAMESPACES as u64), 0)?]);
    // The other filter handles it.
    calls.insert(libc::SYS_clone3, vec![]);
    Ok(calls)
}
