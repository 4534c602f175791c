//! What must hold for any bytes given as a system file, as settings, or as a request to the models in a page.

use sojourn_queueing::system_file::{self, Edit, Step};

/// Settings of every form, for stations and classes of any name.
const SETTINGS: &[&str] = &["traffic=2", "speed=0.5", "sizes=3", "station.web.speed=2", "class.all.users=7"];
/// What settings are tried on.
const FILE: &str = include_str!("../../corpus/system_file/isp-with-proxy");

/// A system file is read, or refused with the number of a line that it has; written again, it is the same system.
pub fn system_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let read = system_file::parse(text);
    if let Err(error) = &read {
        let lines = text.split('\n').count();
        assert!((1..=lines).contains(&error.line), "line {} of {lines}: {}", error.line, error.message);
        assert!(!error.message.is_empty());
    }
    if let (Ok(system), Ok(written)) = (&read, system_file::with_settings::<&str>(text, &[])) {
        let again = system_file::parse(&written).expect("a file that was written is read");
        assert_eq!((&system.name, system.stations.len()), (&again.name, again.stations.len()));
        assert_eq!(system.open_work().len(), again.open_work().len());
    }
    for setting in SETTINGS {
        // What cannot be set is refused, whatever the file.
        let _ = system_file::with_settings(text, &[setting]);
    }
    edits(text, read.is_ok());
}

/// Without edits a text keeps its content, and edits of every kind give a text or are refused.
fn edits(text: &str, is_system: bool) {
    let outline = system_file::outline(text);
    assert_eq!(outline.error.is_none(), is_system);
    if let Ok(same) = system_file::edited(text, &[]) {
        let again = system_file::outline(&same);
        // No number equals one that is none.
        assert!(again.content == outline.content || text.contains("nan"), "{same}");
    }
    let path = |keys: &[&str]| keys.iter().map(|key| Step::Key((*key).to_owned())).collect::<Vec<_>>();
    let some = [
        Edit::Set { path: path(&["stations", "web", "servers"]), value: "2".to_owned() },
        Edit::Insert {
            path: [path(&["classes", "all", "route"]), vec![Step::Place(0)]].concat(),
            value: "\"web\"".to_owned(),
        },
        Edit::Rename { path: path(&["stations", "web"]), name: "a b".to_owned() },
        Edit::Remove { path: path(&["classes", "all"]) },
    ];
    for count in 1..=some.len() {
        if let Ok(changed) = system_file::edited(text, &some[..count]) {
            assert!(system_file::edited(&changed, &[]).is_ok(), "{changed}");
        }
    }
}

/// Each line is a setting, or refused in words.
pub fn settings(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for line in text.split('\n') {
        match system_file::with_settings(FILE, &[line]) {
            Ok(changed) => {
                let _ = system_file::parse(&changed);
            }
            Err(error) => assert!(!error.message.is_empty() && !error.cure.is_empty()),
        }
    }
}
