//! Exact quantiles of values that are not stored: each pass over the values determines sixteen more bits of every
//! quantile.
//!
//! Among the values that share a quantile's known prefix, a pass counts the next sixteen bits. Memory is that of the
//! counters, whatever the number of values.

/// Bits determined by one pass.
const DIGIT_BITS: u32 = 16;

/// The number of passes: one per digit of a value.
pub const PASSES: u32 = u64::BITS / DIGIT_BITS;

/// The search for several quantiles of one quantity.
pub struct QuantileSelection<const N: usize> {
    wanted: [Wanted; N],
    /// One group per distinct prefix of the quantiles.
    groups: Vec<Group>,
    pass: u32,
    count: u64,
    sum: u128,
    max: u64,
}

#[derive(Clone, Copy)]
struct Wanted {
    fraction: f64,
    /// The known upper bits.
    beginning: u64,
    /// Rank among the values with this prefix, from one.
    rank: u64,
}

struct Group {
    beginning: u64,
    counts: Box<[u64]>,
}

impl<const N: usize> QuantileSelection<N> {
    /// Searches for the smallest values that these fractions of all values do not exceed.
    pub fn new(fractions: [f64; N]) -> Self {
        let wanted = fractions.map(|fraction| Wanted { fraction, beginning: 0, rank: 0 });
        QuantileSelection { wanted, groups: vec![Group::new(0)], pass: 0, count: 0, sum: 0, max: 0 }
    }

    /// Adds a value. Every pass must add the same values.
    pub fn take(&mut self, value: u64) {
        if self.pass == 0 {
            self.count += 1;
            self.sum += u128::from(value);
            self.max = self.max.max(value);
        }
        let known = value >> (u64::BITS - (self.pass + 1) * DIGIT_BITS);
        let (beginning, digit) = (known >> DIGIT_BITS, known & DIGIT_MAX);
        if let Some(group) = self.groups.iter_mut().find(|group| group.beginning == beginning) {
            group.counts[digit as usize] += 1;
        }
    }

    /// Ends a pass, determining sixteen more bits.
    pub fn end_pass(&mut self) {
        for wanted in &mut self.wanted {
            if self.pass == 0 {
                let rank = (wanted.fraction * self.count as f64).ceil() as u64;
                wanted.rank = rank.clamp(1, self.count.max(1));
            }
            if let Some(group) = self.groups.iter().find(|group| group.beginning == wanted.beginning) {
                wanted.advance(&group.counts);
            }
        }
        self.pass += 1;
        self.groups.clear();
        for Wanted { beginning, .. } in self.wanted {
            if self.groups.iter().all(|group| group.beginning != beginning) {
                self.groups.push(Group::new(beginning));
            }
        }
    }

    /// The quantiles after all passes; `None` without values.
    pub fn values(&self) -> Option<[u64; N]> {
        debug_assert_eq!(self.pass, PASSES);
        (self.count > 0).then(|| self.wanted.map(|wanted| wanted.beginning))
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The largest value; zero without values.
    pub fn max(&self) -> u64 {
        self.max
    }
}

const DIGIT_MAX: u64 = (1 << DIGIT_BITS) - 1;

impl Wanted {
    fn advance(&mut self, counts: &[u64]) {
        for (digit, &count) in (0..).zip(counts) {
            if self.rank <= count {
                self.beginning = self.beginning << DIGIT_BITS | digit;
                return;
            }
            self.rank -= count;
        }
    }
}

impl Group {
    fn new(beginning: u64) -> Self {
        Group { beginning, counts: vec![0; 1 << DIGIT_BITS].into_boxed_slice() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn quantiles_are_those_of_sorted_values(
            mut values in proptest::collection::vec(prop_oneof![0..9_u64, 0..70_000_u64, any::<u64>()], 1..200),
        ) {
            let fractions = [0.0, 0.3, 0.5, 0.9, 1.0];
            let mut selection = QuantileSelection::new(fractions);
            for _ in 0..PASSES {
                values.iter().for_each(|&value| selection.take(value));
                selection.end_pass();
            }
            values.sort_unstable();
            let sorted = |fraction: f64| {
                values[((fraction * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1]
            };
            prop_assert_eq!(selection.values(), Some(fractions.map(sorted)));
            prop_assert_eq!(Some(&selection.max()), values.last());
        }
    }

    #[test]
    fn nothing_has_no_quantile() {
        let mut selection = QuantileSelection::new([0.5]);
        (0..PASSES).for_each(|_| selection.end_pass());
        assert_eq!(selection.values(), None);
    }
}
