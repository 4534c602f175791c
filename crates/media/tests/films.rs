//! Replays the fuzzer's corpus of films through the function that the fuzzer calls.

#[path = "../../../fuzz/src/corpora.rs"]
mod corpora;
#[path = "../../../fuzz/src/films.rs"]
mod films;

#[test]
fn films() {
    corpora::replay("mp4_film", films::film);
}
