//! Both versions of control groups in imitated folders: the values written, and that everything is undone.

use super::*;

/// A mount point with hierarchies of version 1.
fn version_1() -> tempfile::TempDir {
    let mount = tempfile::tempdir().unwrap();
    for controller in ["memory", "blkio", "cpu"] {
        fs::create_dir(mount.path().join(controller)).unwrap();
        fs::write(mount.path().join(controller).join("cgroup.procs"), "").unwrap();
    }
    mount
}

/// A mount point with version 2, whose controllers have not been delegated yet.
fn version_2() -> tempfile::TempDir {
    let mount = tempfile::tempdir().unwrap();
    fs::write(mount.path().join("cgroup.controllers"), "cpu io memory\n").unwrap();
    fs::write(mount.path().join("cgroup.subtree_control"), "cpu\n").unwrap();
    fs::write(mount.path().join("cgroup.procs"), "").unwrap();
    mount
}

fn limits() -> Limits {
    Limits { memory_bytes: Some(64 << 20), disk: Some(disk_limit()), processors: Some(0.25) }
}

fn disk_limit() -> DiskLimit {
    let (bytes_per_second, reads_per_second) = (Some(2 << 20), Some(100));
    DiskLimit { disk: "254:0".to_owned(), bytes_per_second, reads_per_second }
}

/// The rules for a group in `mount`; only the real file system creates their files with the group.
fn rules(mount: &Path) -> Vec<(PathBuf, String)> {
    let hierarchies = Hierarchies::at(mount);
    let memory = hierarchies.place("memory").unwrap();
    let disk = hierarchies.place(hierarchies.disk_controller()).unwrap();
    let mut rules: Vec<_> = memory.memory_rules(64 << 20).into();
    rules.extend(disk.disk_rules(&disk_limit()));
    let processor = hierarchies.place("cpu").unwrap();
    rules.extend(processor.processor_rules(0.25).unwrap());
    let parent = |file: &str| match file.split('.').next() {
        Some("memory") => &memory.parent,
        Some("cpu") => &processor.parent,
        _ => &disk.parent,
    };
    rules.into_iter().map(|(file, rule)| (parent(file).join(file), rule)).collect()
}

#[test]
fn each_version_is_told_in_its_own_words() {
    let mount = version_1();
    let at = |path: &str| mount.path().join(path);
    let memory = (64 << 20).to_string();
    assert_eq!(
        rules(mount.path()),
        [
            (at("memory/memory.limit_in_bytes"), memory.clone()),
            (at("memory/memory.memsw.limit_in_bytes"), memory.clone()),
            (at("blkio/blkio.throttle.read_bps_device"), "254:0 2097152".to_owned()),
            (at("blkio/blkio.throttle.read_iops_device"), "254:0 100".to_owned()),
            (at("cpu/cpu.cfs_period_us"), "50000".to_owned()),
            (at("cpu/cpu.cfs_quota_us"), "12500".to_owned()),
        ]
    );
    let mount = version_2();
    let at = |path: &str| mount.path().join(path);
    assert_eq!(
        rules(mount.path()),
        [
            (at("memory.max"), memory),
            (at("memory.swap.max"), "0".to_owned()),
            (at("io.max"), "254:0 rbps=2097152".to_owned()),
            (at("io.max"), "254:0 riops=100".to_owned()),
            (at("cpu.max"), "12500 50000".to_owned()),
        ]
    );
    let error = Hierarchies::at(mount.path()).place("pids").unwrap_err();
    assert!(error.contains("no controller pids"), "{error}");
    let error = Hierarchies::at(mount.path()).place("cpu").unwrap().processor_rules(0.01).unwrap_err();
    assert!(error.contains("at least 0.02"), "{error}");
}

#[test]
fn version_2_hands_down_what_it_has_not_yet() {
    let mount = version_2();
    let hierarchies = Hierarchies::at(mount.path());
    let file = mount.path().join("cgroup.subtree_control");
    let place = hierarchies.place("memory").unwrap();
    assert_eq!(place.delegation(), Ok(Some((file.clone(), "memory".to_owned()))));
    fs::write(&file, "cpu memory\n").unwrap();
    assert_eq!(place.delegation(), Ok(None));
}

#[test]
fn what_fails_halfway_leaves_nothing() {
    // A plain folder has no limit files, so the group is created and then refused.
    for mount in [version_1(), version_2()] {
        let state = tempfile::tempdir().unwrap();
        let error = Confinement::new(&Hierarchies::at(mount.path()), state.path(), "sojourn-test", &limits())
            .unwrap_err();
        assert!(error.contains("cannot write"), "{error}");
        let left: Vec<_> = walk(mount.path()).filter(|path| path.ends_with("sojourn-test")).collect();
        assert_eq!(left, Vec::<PathBuf>::new());
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
    }
    let mount = version_2();
    let state = tempfile::tempdir().unwrap();
    let _ = Confinement::new(&Hierarchies::at(mount.path()), state.path(), "sojourn-test", &limits());
    let last = fs::read_to_string(mount.path().join("cgroup.subtree_control")).unwrap();
    assert!(last.starts_with('-'), "what was handed down last is taken back: {last}");
}

#[test]
fn what_a_killed_run_left_is_undone_by_the_next_and_that_of_a_living_one_is_not() {
    let mount = version_1();
    let state = tempfile::tempdir().unwrap();
    let group = mount.path().join("memory/sojourn-left");
    fs::create_dir(&group).unwrap();
    let changes = Changes { groups: vec![group.clone()], handed_down: Vec::new() };
    let journal = Journal::write(state.path(), "sojourn-left", &changes).unwrap();
    assert_eq!(restore(state.path()), Ok(Vec::new()));
    assert!(group.exists(), "its owner, this process, lives");
    let file = state.path().join("sojourn-left.json");
    let of_nobody = fs::read_to_string(&file).unwrap().replace("\"started_ticks\":", "\"started_ticks\":1");
    fs::write(&file, of_nobody).unwrap();
    assert_eq!(restore(state.path()), Ok(vec![group.clone()]));
    assert!(!group.exists() && !file.exists());
    drop(journal);
}

fn walk(folder: &Path) -> Box<dyn Iterator<Item = PathBuf>> {
    let paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    Box::new(paths.into_iter().flat_map(|path| {
        let below = if path.is_dir() { walk(&path) } else { Box::new(std::iter::empty()) };
        std::iter::once(path).chain(below)
    }))
}
