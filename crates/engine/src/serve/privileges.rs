//! `--user`: the server gives up root's privileges for good, once its sockets are bound and its files are open.
//!
//! It does so before there is any other thread or process, so none of them has privileges. They cannot be regained:
//! files and sockets opened later, by a successor or for SIGUSR1, are opened as that user.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;

use anyhow::{Context, anyhow, bail, ensure};
use rustix::process::{getegid, geteuid};
use rustix::thread::set_no_new_privs;
use sojourn_server::AccessLog;

/// Buffer size for user and group records.
const RECORD_BYTES: usize = 64 * 1024;

/// The user and groups that the server runs as once its sockets are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name, for the user's supplementary groups.
    name: CString,
    uid: libc::uid_t,
    gid: libc::gid_t,
    /// True if the group was given, so that it is the only one.
    group_is_chosen: bool,
}

impl Identity {
    /// Finds the user and group of `NAME[:GROUP]`.
    ///
    /// # Errors
    /// If there is no such user or group.
    pub fn find(text: &str) -> anyhow::Result<Identity> {
        let (name, group) = text.split_once(':').map_or((text, None), |(name, group)| (name, Some(group)));
        let name = CString::new(name)?;
        let (uid, gid) = user(&name).with_context(|| {
            format!("there is no user {}\nhint: `getent passwd` lists them", name.to_string_lossy())
        })?;
        let chosen = group.map(|name| {
            self::group(&CString::new(name)?)
                .with_context(|| format!("there is no group {name}\nhint: `getent group` lists them"))
        });
        let gid = chosen.transpose()?.unwrap_or(gid);
        Ok(Identity { name, uid, gid, group_is_chosen: group.is_some() })
    }

    /// Becomes this user, which must be able to reopen `log` and to read `roots`.
    ///
    /// # Errors
    /// If that is impossible, or could be undone.
    pub fn assume<'a>(
        &self,
        log: Option<&AccessLog>,
        roots: impl IntoIterator<Item = &'a Path>,
    ) -> anyhow::Result<()> {
        let name = self.name.to_string_lossy();
        if geteuid().is_root() && self.uid != 0 {
            if let Some(log) = log {
                log.chown_to(self.uid, self.gid)
                    .with_context(|| format!("cannot change the owner of the access log to {name}"))?;
            }
            self.change().with_context(|| format!("cannot become {name}"))?;
        }
        ensure!(
            (geteuid().as_raw(), getegid().as_raw()) == (self.uid, self.gid),
            "cannot become {name}: this process does not run as root\nhint: start it as root, or leave out --user"
        );
        set_no_new_privs(true).context("cannot set no_new_privs")?;
        // SAFETY: it must fail, which is checked.
        if self.uid != 0 && unsafe { libc::setuid(0) } == 0 {
            bail!("root privileges can be regained\nhint: this system does not drop them; leave out --user");
        }
        for root in roots {
            std::fs::read_dir(root).map_err(|error| {
                anyhow!(
                    "{name} cannot read {}: {error}\nhint: that user needs execute permission on every directory of the path, and read permission on the last",
                    root.display()
                )
            })?;
        }
        Ok(())
    }

    /// Groups first, because they cannot be changed without root's privileges.
    fn change(&self) -> io::Result<()> {
        let check =
            |outcome: libc::c_int| if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        // SAFETY: the pointers are valid during the calls.
        unsafe {
            check(if self.group_is_chosen {
                libc::setgroups(1, &raw const self.gid)
            } else {
                libc::initgroups(self.name.as_ptr(), self.gid)
            })?;
            check(libc::setresgid(self.gid, self.gid, self.gid))?;
            check(libc::setresuid(self.uid, self.uid, self.uid))
        }
    }
}

fn user(name: &CStr) -> Option<(libc::uid_t, libc::gid_t)> {
    let mut record = MaybeUninit::<libc::passwd>::uninit();
    let mut room = vec![0; RECORD_BYTES];
    let mut found = ptr::null_mut();
    // SAFETY: all pointers are valid, and the room's size is given.
    unsafe {
        libc::getpwnam_r(name.as_ptr(), record.as_mut_ptr(), room.as_mut_ptr(), room.len(), &raw mut found);
        found.as_ref().map(|record| (record.pw_uid, record.pw_gid))
    }
}

fn group(name: &CStr) -> Option<libc::gid_t> {
    let mut record = MaybeUninit::<libc::group>::uninit();
    let mut room = vec![0; RECORD_BYTES];
    let mut found = ptr::null_mut();
    // SAFETY: all pointers are valid, and the room's size is given.
    unsafe {
        libc::getgrnam_r(name.as_ptr(), record.as_mut_ptr(), room.as_mut_ptr(), room.len(), &raw mut found);
        found.as_ref().map(|record| record.gr_gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups() {
        let root = Identity::find("root").unwrap();
        assert_eq!((root.uid, root.gid, root.group_is_chosen), (0, 0, false));
        assert!(Identity::find("root:root").unwrap().group_is_chosen);
        for (text, expected) in
            [("no-such-user", "there is no user no-such-user"), ("root:none", "there is no group none")]
        {
            let said = Identity::find(text).unwrap_err().to_string();
            assert!(said.starts_with(expected) && said.contains("\nhint: "), "{said}");
        }
    }
}
