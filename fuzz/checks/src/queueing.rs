//! What must hold for any bytes given as a system file.

use sojourn_queueing::system_file;

/// A system file is read, or refused with the number of a line that it has.
pub fn system_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = system_file::parse(text) {
        let lines = text.split('\n').count();
        assert!((1..=lines).contains(&error.line), "line {} of {lines}: {}", error.line, error.message);
        assert!(!error.message.is_empty());
    }
}
