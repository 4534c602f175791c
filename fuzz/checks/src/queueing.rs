//! What must hold for any bytes given as a system file, as settings, or as a request to the models in a page.

use sojourn_queueing::system_file;

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
