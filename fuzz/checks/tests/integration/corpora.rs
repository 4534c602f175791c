//! Replays the corpus of every fuzz target.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, thread};

use sojourn_fuzz_checks::{Check, TARGETS};

/// The fewest inputs of a corpus; one with fewer was not committed completely.
const INPUTS_MIN: usize = 5;

pub fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The inputs of a target's corpus, in the order of their names.
pub fn inputs(name: &str) -> Vec<Vec<u8>> {
    let corpus = fuzz_folder().join("corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= INPUTS_MIN, "{} holds only {} inputs", corpus.display(), files.len());
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn replay(name: &str, check: Check) {
    inputs(name).iter().for_each(|input| check(input));
}

#[test]
fn every_input_of_every_corpus_passes_its_check() {
    thread::scope(|scope| {
        for &(name, check) in TARGETS {
            // A failed assertion is reported under the name of its thread.
            let thread = thread::Builder::new().name(name.to_owned());
            thread.spawn_scoped(scope, move || replay(name, check)).unwrap();
        }
    });
}

#[test]
fn every_target_has_a_check_a_corpus_and_a_program() {
    let names: BTreeSet<String> = TARGETS.iter().map(|&(name, _)| name.to_owned()).collect();
    let listed = |folder: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(fuzz_folder().join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed("corpus"), names);
    assert_eq!(listed("fuzz_targets"), names);
}
