//! Looks up the numbers of tracepoints by name in tracefs.

use std::{fs, io};

use perf_event::events::Tracepoint;

/// Usual mount points of tracefs: separate, and within debugfs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

pub fn find(name: &str) -> io::Result<Tracepoint> {
    find_in(&PLACES, name)
}

fn find_in(places: &[&str], name: &str) -> io::Result<Tracepoint> {
    let events = places.iter().map(|place| format!("{place}/events"));
    let (mut mounted, mut refused) = (false, None);
    for events in events {
        match fs::read_to_string(format!("{events}/{name}/id")) {
            Ok(id) => {
                let parsed = id.trim().parse().map(Tracepoint::with_id);
                return parsed.map_err(|_| io::Error::other(format!("{events}/{name}/id is not a number")));
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                refused = refused.or_else(|| Some(format!("{events}: {error}: only root can read tracefs")));
            }
            Err(_) => mounted |= fs::exists(&events).unwrap_or(false),
        }
    }
    // Not an OS error: its code would be mistaken for one of perf's.
    Err(io::Error::other(match refused {
        Some(why) => why,
        None if mounted => format!("this kernel has no tracepoint {name}"),
        None => format!("tracefs is not mounted: mount -t tracefs none {}", PLACES[0]),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(places: &[&str]) -> String {
        find_in(places, "sched/sched_switch").expect_err("there is none").to_string()
    }

    #[test]
    fn what_is_not_there_is_said_with_its_cure() {
        assert!(reason(&["/nowhere"]).contains("mount -t tracefs"));
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_str().unwrap();
        fs::create_dir_all(folder.path().join("events/sched/sched_switch")).unwrap();
        assert!(reason(&["/nowhere", place]).contains("this kernel has no tracepoint sched/sched_switch"));
        let id = folder.path().join("events/sched/sched_switch/id");
        fs::write(&id, "none\n").unwrap();
        assert!(reason(&[place]).contains("is not a number"));
        fs::write(&id, "372\n").unwrap();
        assert_eq!(find_in(&[place], "sched/sched_switch").unwrap().id(), 372);
    }
}
