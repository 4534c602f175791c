//! Chooses documents at random by weight, and verifies the result afterwards: a wrongly seeded generator would request
//! another mix than it reports.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use crate::plan::Pick;

/// The minimum expected count per cell of a chi-square test.
const EXPECTED_MIN: f64 = 5.0;

pub struct Picker {
    /// Cumulative weights; empty if the first document is always chosen.
    sums: Vec<u64>,
    /// How often each was chosen.
    counts: Vec<u64>,
}

/// How well the requested documents fit their weights, over the whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct MixCheck {
    pub draws: u64,
    /// The sum of (drawn - expected)² / expected over documents; rare ones are combined.
    pub chi_square: f64,
    /// The number of such cells minus one.
    pub degrees_of_freedom: u64,
    /// The probability of a deviation at least as large by chance.
    pub p_value: f64,
}

impl Picker {
    /// A picker according to the plan.
    pub fn new(pick: &Pick) -> Picker {
        let weights = match pick {
            Pick::First => &[][..],
            Pick::Weighted(weights) => weights,
        };
        let mut sum = 0;
        let sums: Vec<u64> = weights
            .iter()
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        Picker { counts: vec![0; sums.len()], sums }
    }

    pub fn pick(&mut self, random: &mut Xoshiro256PlusPlus) -> u32 {
        let Some(&total) = self.sums.last() else { return 0 };
        let mark = random.random_range(0..total);
        let document = self.sums.partition_point(|&sum| sum <= mark);
        self.counts[document] += 1;
        document as u32
    }

    /// Pearson's chi-square test of the choices; `None` if there is nothing to compare.
    pub fn check(&self) -> Option<MixCheck> {
        let total = *self.sums.last()? as f64;
        let draws: u64 = self.counts.iter().sum();
        let before = std::iter::once(&0).chain(&self.sums);
        let expected = self.sums.iter().zip(before).map(|(sum, before)| (sum - before) as f64 / total);
        let (mut cells, mut chi_square, mut rare) = (0_u64, 0.0, (0.0, 0.0));
        for (share, &count) in expected.zip(&self.counts) {
            let expected = share * draws as f64;
            if expected >= EXPECTED_MIN {
                cells += 1;
                chi_square += (count as f64 - expected).powi(2) / expected;
            } else {
                rare = (rare.0 + expected, rare.1 + count as f64);
            }
        }
        if rare.0 >= EXPECTED_MIN {
            cells += 1;
            chi_square += (rare.1 - rare.0).powi(2) / rare.0;
        }
        let degrees_of_freedom = cells.checked_sub(1).filter(|&degrees| degrees > 0)?;
        let p_value = chi_square_tail(degrees_of_freedom as f64, chi_square);
        Some(MixCheck { draws, chi_square, degrees_of_freedom, p_value })
    }
}

/// The probability that chi-square with `degrees` of freedom exceeds `value`: the upper regularised
/// incomplete gamma function Q(degrees / 2, value / 2), by its series below a + 1 and by its continued
/// fraction (Lentz's way) above (Numerical Recipes, 6.2).
fn chi_square_tail(degrees: f64, value: f64) -> f64 {
    const TERMS_MAX: usize = 100_000;
    let (a, x) = (degrees / 2.0, value / 2.0);
    if x <= 0.0 {
        return 1.0;
    }
    let front = (a * x.ln() - x - libm::lgamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..TERMS_MAX {
            term *= x / (a + n as f64);
            sum += term;
            if term < sum * 1e-14 {
                break;
            }
        }
        return (1.0 - front * sum).clamp(0.0, 1.0);
    }
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let mut fraction = d;
    for n in 1..TERMS_MAX {
        let n = n as f64;
        let factor = -n * (n - a);
        b += 2.0;
        d = 1.0 / factor.mul_add(d, b);
        c = b + factor / c;
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    (front * fraction).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn drawn(pick: &Pick, seed: u64) -> Picker {
        let mut picker = Picker::new(pick);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..100_000).for_each(|_| {
            picker.pick(&mut random);
        });
        picker
    }

    #[test]
    fn the_tail_of_chi_square() {
        // From tables: the 5 % and 0.1 % points.
        for (degrees, value, tail) in [(1.0, 3.841, 0.05), (4.0, 9.488, 0.05), (4.0, 18.467, 0.001)] {
            assert!((chi_square_tail(degrees, value) / tail - 1.0).abs() < 1e-3, "{degrees} {value}");
        }
        assert!((chi_square_tail(1000.0, 1000.0) - 0.4941).abs() < 1e-3);
        assert_eq!(chi_square_tail(3.0, 0.0), 1.0);
    }

    #[test]
    fn what_is_picked_fits_its_weights_and_not_others() {
        let weights = vec![350, 500, 140, 9, 1];
        for seed in 0..5 {
            let check = drawn(&Pick::Weighted(weights.clone()), seed).check().unwrap();
            assert_eq!((check.draws, check.degrees_of_freedom), (100_000, 4));
            assert!(check.p_value > 1e-3, "seed {seed}: {check:?}");
        }
        let mut other = drawn(&Pick::Weighted(vec![350, 500, 155, 9, 1]), 1);
        other.sums = vec![350, 850, 990, 999, 1000];
        assert!(other.check().unwrap().p_value < 1e-3);
        assert_eq!(drawn(&Pick::First, 1).check(), None);
    }

    #[test]
    fn rare_documents_are_put_together() {
        let many = Pick::Weighted([vec![1_000_000], vec![1; 1000]].concat());
        let check = drawn(&many, 3).check().unwrap();
        assert_eq!(check.degrees_of_freedom, 1);
    }
}
