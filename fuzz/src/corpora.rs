//! Gives every committed input of a fuzz target to its check, in a plain test.

use std::path::Path;

/// Replays `fuzz/corpus/NAME`.
pub fn replay(name: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut count = 0;
    for entry in std::fs::read_dir(&corpus).unwrap() {
        check(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 5, "{} holds only {count} inputs", corpus.display());
}
