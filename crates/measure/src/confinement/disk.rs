//! Finds the disk under a folder in the notation of limits: `MAJOR:MINOR`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `MAJOR:MINOR` of the whole disk that holds `folder`; limits of a partition have no effect.
///
/// # Errors
/// If the folder is not on a disk, or cannot be inspected.
pub fn disk_under(folder: &Path) -> Result<String, String> {
    let fault = |error: io::Error| format!("{}: {error}", folder.display());
    let number = fs::metadata(folder).map_err(fault)?.dev();
    let device = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let entry = fs::canonicalize(format!("/sys/dev/block/{device}"))
        .map_err(|_| format!("{} is on device {device}, which is no disk", folder.display()))?;
    let disk = if entry.join("partition").exists() { entry.parent().unwrap_or(&entry) } else { &entry };
    fs::read_to_string(disk.join("dev")).map(|text| text.trim().to_owned()).map_err(fault)
}
