//! M/M/c: the probability of waiting.

/// P(an arrival at M/M/c waits), for `offered` Erlangs, by the stable recursion of Erlang B.
pub(crate) fn erlang_c(servers: u32, offered: f64) -> f64 {
    let blocked = (1..=servers).fold(1.0, |blocked, c| {
        let load = offered * blocked;
        load / (f64::from(c) + load)
    });
    let idle = 1.0 - offered / f64::from(servers);
    blocked / (idle + blocked * (1.0 - idle))
}
