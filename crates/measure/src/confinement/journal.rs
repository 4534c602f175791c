//! Writes every change to disk, with its owner, before it is made, so that another process can undo it if the owner is
//! killed.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Changes;
use crate::process;

/// The journal of one run.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    pid: u32,
    /// The owner's start time in ticks since boot, because a process ID may be reused.
    started_ticks: u64,
    changes: Changes,
}

/// The folder of journals.
///
/// # Errors
/// If neither a home directory nor `XDG_STATE_HOME` is set.
pub fn state_folder() -> Result<PathBuf, String> {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = named("XDG_STATE_HOME").or_else(|| named("HOME").map(|home| home.join(".local/state")));
    base.map(|base| base.join("sojourn/confinement"))
        .ok_or_else(|| "no directory for state\nhint: set XDG_STATE_HOME".to_owned())
}

impl Journal {
    /// Records the changes that this process is about to make.
    pub fn write(folder: &Path, name: &str, changes: &Changes) -> Result<Journal, String> {
        let path = folder.join(format!("{name}.json"));
        let fault = |error: io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(folder).map_err(fault)?;
        let pid = std::process::id();
        let started_ticks = process::started(pid).ok_or("this process is not in /proc")?;
        let entry = Entry { pid, started_ticks, changes: changes.clone() };
        let text = serde_json::to_string(&entry).expect("names and numbers can be written");
        let partial = path.with_extension("partial");
        fs::write(&partial, text).and_then(|()| fs::rename(&partial, &path)).map_err(fault)?;
        Ok(Journal { path })
    }

    pub fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            eprintln!("{} remains: {error}", self.path.display());
        }
    }
}

/// The journals whose owners have ended, with their changes.
pub fn abandoned(folder: &Path) -> Result<Vec<(Journal, Changes)>, String> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", folder.display())),
    };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            // Its owner has just removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let entry: Entry = serde_json::from_str(&text).map_err(|error| {
            format!("{}: {error}\nhint: remove it, and the groups it names", path.display())
        })?;
        if process::started(entry.pid) != Some(entry.started_ticks) {
            found.push((Journal { path }, entry.changes));
        }
    }
    Ok(found)
}
