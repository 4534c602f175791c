//! A fuzzer without a nightly compiler: mutates the inputs of every corpus for a time, and checks each.
//!
//! Nothing tells it which code an input reaches, so it finds less than `cargo fuzz`; but it runs in every test run, and for
//! as long as you like: `FUZZ_SECONDS=60 FUZZ_SEED=7 cargo test --release -p sojourn-fuzz-checks mutations`. An input that
//! fails is written to `fuzz/artifacts/`.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_fuzz_checks::{Check, TARGETS};

use crate::corpora::{fuzz_folder, inputs};

/// For each target, unless `FUZZ_SECONDS` says otherwise.
const SECONDS: f64 = 0.2;

/// Targets at a time, unless the machine has fewer cores.
const THREADS_MAX: usize = 8;

const INPUT_BYTES_MAX: usize = 4096;

const MUTATIONS_MAX: usize = 6;

/// An input that takes longer has failed.
const INPUT_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes that parsers treat in their own way.
const SPECIAL: &[u8] = b"\0\t\n\r \"#%&+,-./0159:;<=>?@AZ[\\]_`az{|}~\x7f\x80\xff";

/// Numbers at the edges of what fits.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "127",
    "128",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e309",
    "00",
    "0x10",
];

fn number<T: std::str::FromStr>(name: &str, default: T) -> T {
    env::var(name)
        .ok()
        .map_or(default, |text| text.parse().ok().unwrap_or_else(|| panic!("{name} is no number")))
}

#[test]
fn mutations_of_every_input_pass_their_checks() {
    let time = Duration::from_secs_f64(number("FUZZ_SECONDS", SECONDS));
    let seed: u64 = number("FUZZ_SEED", 1);
    let chosen = env::var("FUZZ_TARGET").ok();
    let targets = TARGETS.iter().filter(|(name, _)| chosen.as_deref().is_none_or(|chosen| chosen == *name));
    let waiting: Mutex<VecDeque<_>> = Mutex::new(targets.collect());
    let failed = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&(name, check)) = { waiting.lock().unwrap().pop_front() } {
                    let mut fuzzer = Fuzzer::new(name, seed);
                    match fuzzer.run(check, time) {
                        Ok(count) => eprintln!("{name}: {count} inputs"),
                        Err(failure) => failed.lock().unwrap().push(failure),
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

struct Fuzzer {
    name: &'static str,
    corpus: Vec<Vec<u8>>,
    random: Xoshiro256PlusPlus,
}

impl Fuzzer {
    fn new(name: &'static str, seed: u64) -> Fuzzer {
        let own = name.bytes().fold(seed, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Fuzzer { name, corpus: inputs(name), random: Xoshiro256PlusPlus::seed_from_u64(own) }
    }

    /// Checks inputs for a time; returns how many.
    fn run(&mut self, check: Check, time: Duration) -> Result<u64, String> {
        let began = Instant::now();
        let mut count = 0;
        while began.elapsed() < time {
            let input = self.mutated();
            let started = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| check(&input)));
            if outcome.is_err() || started.elapsed() > INPUT_TIME_MAX {
                let folder = fuzz_folder().join("artifacts").join(self.name);
                fs::create_dir_all(&folder).unwrap();
                let file = folder.join(format!("mutation-{count}"));
                fs::write(&file, &input).unwrap();
                return Err(format!("{}: the input in {} fails", self.name, file.display()));
            }
            count += 1;
        }
        Ok(count)
    }

    /// One of the corpus's inputs with some mutations.
    fn mutated(&mut self) -> Vec<u8> {
        let mut input = self.any().clone();
        for _ in 0..self.random.random_range(1..=MUTATIONS_MAX) {
            self.mutate(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn any(&mut self) -> &Vec<u8> {
        let index = self.random.random_range(0..self.corpus.len());
        &self.corpus[index]
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.random.random_range(0..=input.len());
        let end = (at + self.length()).min(input.len());
        match self.random.random_range(0..10) {
            0 => flip(input, at, self.random.random_range(0..8)),
            1 => replace(input, at, self.random.random()),
            2 => {
                let byte = SPECIAL[self.random.random_range(0..SPECIAL.len())];
                replace(input, at, byte);
            }
            3 => {
                let byte = SPECIAL[self.random.random_range(0..SPECIAL.len())];
                input.insert(at, byte);
            }
            4 => drop(input.drain(at..end)),
            5 => input.truncate(at),
            // A part again, once or often.
            6 => {
                let times = self.random.random_range(1..4);
                let part = input[at..end].repeat(times);
                input.splice(at..at, part);
            }
            // A part elsewhere.
            7 => {
                let part: Vec<u8> = input.drain(at..end).collect();
                let to = self.random.random_range(0..=input.len());
                input.splice(to..to, part);
            }
            // A part of another input.
            8 => {
                let length = self.length();
                let other = self.any().clone();
                let from = self.random.random_range(0..=other.len());
                input.splice(at..end, other[from..(from + length).min(other.len())].iter().copied());
            }
            // Another number.
            _ => {
                let digits =
                    input[at..].iter().position(u8::is_ascii_digit).map_or(at, |skipped| at + skipped);
                let count = input[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let number = NUMBERS[self.random.random_range(0..NUMBERS.len())];
                input.splice(digits..digits + count, number.bytes());
            }
        }
    }

    /// Mostly short.
    fn length(&mut self) -> usize {
        let longest: usize = 1 << self.random.random_range(0..9);
        self.random.random_range(0..=longest)
    }
}

fn flip(input: &mut [u8], at: usize, bit: u32) {
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << bit;
    }
}

fn replace(input: &mut [u8], at: usize, with: u8) {
    if let Some(byte) = input.get_mut(at) {
        *byte = with;
    }
}
