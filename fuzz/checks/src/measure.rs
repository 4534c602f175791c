//! What must hold for any bytes given as an HDR interval log.

use sojourn_measure::interval_log;

/// Reading never panics, and what is read can be written and read again.
pub fn interval_log(bytes: &[u8]) {
    let Ok(rows) = interval_log::read(bytes) else { return };
    let intervals = rows.iter().map(|row| interval_log::Interval {
        tag: if row.tag.is_empty() { "none" } else { &row.tag },
        start: row.start,
        length: row.length,
        histogram: &row.histogram,
    });
    let mut log = Vec::new();
    interval_log::write(&mut log, std::time::UNIX_EPOCH, "fuzz", intervals).expect("memory takes everything");
    let again = interval_log::read(&log).expect("what was written reads back");
    assert!(again.iter().map(|row| &row.histogram).eq(rows.iter().map(|row| &row.histogram)));
}
