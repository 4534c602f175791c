//! Reads small files of /proc and /sys; errors name the file.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
};

use crate::descriptors;

pub(crate) fn read(path: &str) -> io::Result<String> {
    with_descriptors(|| fs::read_to_string(path)).map_err(|error| named(path, &error))
}

/// The most files that a thread keeps open.
const KEPT_MAX: usize = 1024;

thread_local! {
    static KEPT: RefCell<HashMap<String, File>> = RefCell::new(HashMap::new());
}

/// Reads a file of at most one page and keeps it open, because opening costs five times as much as reading. For files
/// that are read many times a second for each of hundreds of threads.
pub(crate) fn read_kept(path: &str) -> io::Result<String> {
    let known = KEPT.with_borrow_mut(|kept| {
        let text = page(kept.get(path)?);
        if text.is_err() {
            // The process has ended, and its ID may have been reused.
            kept.remove(path);
        }
        text.ok()
    });
    if let Some(text) = known {
        return Ok(text);
    }
    let file = with_descriptors(|| File::open(path)).map_err(|error| named(path, &error))?;
    let text = page(&file).map_err(|error| named(path, &error))?;
    // Files of ended processes are among them until there are too many: nobody asks for those again.
    let most = descriptors::kept_files_max(KEPT_MAX);
    KEPT.with_borrow_mut(|kept| {
        if kept.len() >= most {
            kept.clear();
        }
        kept.insert(path.to_owned(), file);
    });
    Ok(text)
}

/// Opens something. If no descriptor is left, the kept files give theirs back first.
pub(crate) fn with_descriptors<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match open() {
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
            KEPT.with_borrow_mut(|kept| kept.clear());
            open()
        }
        opened => opened,
    }
}

fn page(file: &File) -> io::Result<String> {
    let mut bytes = [0; 4096];
    let length = file.read_at(&mut bytes, 0)?;
    String::from_utf8(bytes[..length].to_vec()).map_err(io::Error::other)
}

fn named(path: &str, error: &io::Error) -> io::Error {
    // A process that ends between opening and reading counts as ended.
    let is_gone = error.raw_os_error() == Some(libc::ESRCH);
    let kind = if is_gone { io::ErrorKind::NotFound } else { error.kind() };
    io::Error::new(kind, format!("{path}: {error}"))
}

/// An error for a file that lacks an expected entry.
pub(crate) fn missing_entry(path: &str, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{path} has no {what}"))
}

#[cfg(test)]
mod tests {
    use std::{env, iter, process::Command, thread, time::Duration};

    use super::*;

    #[test]
    fn a_file_that_stays_open_is_read_anew_and_one_that_is_gone_is_not_found() {
        let uptime = || read_kept("/proc/uptime").unwrap();
        let before = uptime();
        thread::sleep(Duration::from_millis(30));
        assert_ne!(before, uptime());
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let path = format!("/proc/{0}/task/{0}/schedstat", child.id());
        assert!(read_kept(&path).is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(read_kept(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// Set for the test that has started itself with few descriptors.
    const FEW_DESCRIPTORS: &str = "SOJOURN_TEST_FEW_DESCRIPTORS";

    #[test]
    fn kept_files_leave_descriptors_for_others() {
        if env::var_os(FEW_DESCRIPTORS).is_none() {
            let script =
                "ulimit -n 64; exec \"$0\" --exact proc_file::tests::kept_files_leave_descriptors_for_others";
            let mut again = Command::new("sh");
            again.args(["-c", script]).arg(env::current_exe().unwrap()).env(FEW_DESCRIPTORS, "yes");
            assert!(again.status().unwrap().success());
            return;
        }
        // As a server that forks a process for each connection.
        for _ in 0..100 {
            let mut child = Command::new("sleep").arg("60").spawn().unwrap();
            let text = read_kept(&format!("/proc/{0}/task/{0}/schedstat", child.id()));
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(text.is_ok(), "{text:?}");
        }
        let others: Vec<File> = iter::from_fn(|| File::open("/dev/null").ok()).collect();
        assert!(read("/proc/self/stat").is_ok() && read_kept("/proc/self/schedstat").is_ok());
        drop(others);
    }
}
