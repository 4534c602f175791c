//! Runs a program with less memory, a slower disk or a slower processor, in a control group of its own (version 1 or
//! 2).
//!
//! Every change is journaled first and undone when the [`Confinement`] is dropped. The next run, or [`restore`], undoes
//! what a killed run left behind. The limits belong to the group, so processes that remain when it is removed become
//! unconfined. The machine's own settings are not changed, except that version 2 must delegate controllers to the new
//! group; that is undone, too.
//!
//! File pages are charged to the group that first touched them. Drop a site's pages (`crate::site_pages`) before you
//! confine its server, otherwise the limit does not count them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

mod hierarchy;
mod journal;

pub use hierarchy::Hierarchies;
pub use journal::{Journal, state_folder};

/// How long ending processes may take to leave a group.
const LEAVING_TIMEOUT: Duration = Duration::from_secs(5);

/// Between two attempts to remove a group.
const PAUSE: Duration = Duration::from_millis(5);

/// The limits of a confined program; `None` means unlimited.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Memory, including the group's share of the page cache.
    pub memory_bytes: Option<u64>,
    pub disk: Option<DiskLimit>,
    /// CPU time per second: 0.25 is a quarter of one processor.
    pub processors: Option<f64>,
}

/// How fast a disk may be read; the slower of both limits holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskLimit {
    /// `MAJOR:MINOR`
    pub disk: String,
    pub bytes_per_second: Option<u64>,
    /// Read requests as the disk gets them, which hold up to half a megabyte where files are read ahead.
    pub reads_per_second: Option<u64>,
}

/// A limited group. Dropping it moves its processes out and removes it.
#[derive(Debug)]
pub struct Confinement {
    changes: Changes,
    journal: Journal,
}

/// Changes made in the control group file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    pub groups: Vec<PathBuf>,
    /// Controllers that were delegated: the file, and the controller.
    pub handed_down: Vec<(PathBuf, String)>,
}

impl Confinement {
    /// Creates a group called `name` with `limits`, journaled in `state`. First undoes the changes of killed runs.
    ///
    /// # Errors
    /// What failed and the likely cure; nothing is left behind.
    pub fn new(
        hierarchies: &Hierarchies,
        state: &Path,
        name: &str,
        limits: &Limits,
    ) -> Result<Confinement, String> {
        restore(state)?;
        let mut wanted = Vec::new();
        if let Some(bytes) = limits.memory_bytes {
            let place = hierarchies.place("memory")?;
            wanted.extend(place.memory_rules(bytes).map(|(file, rule)| (place.clone(), file, rule)));
        }
        if let Some(limit) = &limits.disk {
            let place = hierarchies.place(hierarchies.disk_controller())?;
            let rules = place.disk_rules(limit);
            wanted.extend(rules.into_iter().map(|(file, rule)| (place.clone(), file, rule)));
        }
        if let Some(processors) = limits.processors {
            let place = hierarchies.place("cpu")?;
            let rules = place.processor_rules(processors)?;
            wanted.extend(rules.into_iter().map(|(file, rule)| (place.clone(), file, rule)));
        }
        let mut changes = Changes::default();
        for (place, ..) in &wanted {
            let group = place.parent.join(name);
            if !changes.groups.contains(&group) {
                changes.groups.push(group);
            }
            changes.handed_down.extend(place.delegation()?);
        }
        let journal = Journal::write(state, name, &changes)?;
        // From here on, dropping it undoes the changes.
        let confinement = Confinement { changes, journal };
        for (file, controller) in &confinement.changes.handed_down {
            write(file, &format!("+{controller}"))?;
        }
        for group in &confinement.changes.groups {
            fs::create_dir(group).map_err(|error| {
                format!(
                    "cannot create the control group {}: {error}\nhint: run it as root, or in a group where you may create groups",
                    group.display()
                )
            })?;
        }
        for (place, file, rule) in &wanted {
            let file = place.parent.join(name).join(file);
            // A machine without swap accounting has no swap to limit.
            if file.exists() || !hierarchy::is_swap_limit(&file) {
                write(&file, rule)?;
            }
        }
        Ok(confinement)
    }

    /// The groups, one per hierarchy with a limit.
    pub fn groups(&self) -> &[PathBuf] {
        &self.changes.groups
    }

    /// Makes `command` run inside the group.
    ///
    /// # Errors
    /// If the command cannot be moved into the group.
    pub fn enclose<'a>(&self, command: &'a mut Command) -> Result<&'a mut Command, String> {
        let doors: Result<Vec<File>, String> = self
            .groups()
            .iter()
            .map(|group| {
                let door = group.join("cgroup.procs");
                let open = OpenOptions::new().write(true).open(&door);
                open.map_err(|error| format!("{}: {error}", door.display()))
            })
            .collect();
        let doors = doors?;
        // 0 means the writing process.
        let enter = move || doors.iter().try_for_each(|mut door| door.write_all(b"0"));
        // SAFETY: writing to open files is allowed between fork and exec.
        unsafe { command.pre_exec(enter) };
        Ok(command)
    }
}

impl Drop for Confinement {
    fn drop(&mut self) {
        match self.changes.undo() {
            Ok(()) => self.journal.remove(),
            // The journal stays, so that a later run can try again.
            Err(reason) => eprintln!("{reason}"),
        }
    }
}

impl Changes {
    /// Undoes the changes that have not been undone yet.
    fn undo(&self) -> Result<(), String> {
        self.groups.iter().try_for_each(|group| remove(group))?;
        for (file, controller) in &self.handed_down {
            if file.exists() && !hierarchy::has_our_groups(file) {
                // Other groups may need it by now.
                let _ = write(file, &format!("-{controller}"));
            }
        }
        Ok(())
    }
}

/// Undoes what killed runs left behind, according to their journals in `state`; returns the removed groups.
///
/// # Errors
/// What could not be undone.
pub fn restore(state: &Path) -> Result<Vec<PathBuf>, String> {
    let mut removed = Vec::new();
    for (journal, changes) in journal::abandoned(state)? {
        changes.undo()?;
        removed.extend(changes.groups);
        journal.remove();
    }
    Ok(removed)
}

/// Moves the group's processes to its parent and removes the group.
fn remove(group: &Path) -> Result<(), String> {
    let outside = group.parent().unwrap_or(group).join("cgroup.procs");
    let begun = Instant::now();
    loop {
        match fs::remove_dir(group) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if begun.elapsed() > LEAVING_TIMEOUT => {
                return Err(format!("the control group {} remains: {error}", group.display()));
            }
            Err(_) => {}
        }
        for process in fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines() {
            // A process that has just ended is already out.
            let _ = fs::write(&outside, process);
        }
        thread::sleep(PAUSE);
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    // Does not create the file: a missing file means that the kernel lacks this limit.
    let opened = OpenOptions::new().write(true).open(file);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("cannot write {text:?} to {}: {error}", file.display()))
}

/// `MAJOR:MINOR` of the whole disk that holds `folder`; limits of a partition have no effect.
///
/// # Errors
/// If the folder is not on a disk, or cannot be inspected.
pub fn disk_under(folder: &Path) -> Result<String, String> {
    let fault = |error: io::Error| format!("{}: {error}", folder.display());
    let number = fs::metadata(folder).map_err(fault)?.dev();
    let device = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let entry = fs::canonicalize(format!("/sys/dev/block/{device}"))
        .map_err(|_| format!("{} is on device {device}, which is not a disk", folder.display()))?;
    let disk = if entry.join("partition").exists() { entry.parent().unwrap_or(&entry) } else { &entry };
    fs::read_to_string(disk.join("dev")).map(|text| text.trim().to_owned()).map_err(fault)
}

#[cfg(test)]
mod tests;
