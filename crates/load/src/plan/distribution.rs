//! Distributions of think times and of requests per connection.

use rand::{Rng, RngExt};
use sojourn_measure::Nanos;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    pub mean: Nanos,
    /// The shape of the distribution around the mean.
    pub shape: Shape,
}

/// How times spread around their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    Constant,
    /// Memoryless, so that clients do not synchronise.
    Exponential,
    /// Between zero and twice the mean.
    Uniform,
    /// Uniform between this share of the mean and as far above it.
    Between {
        least: f64,
    },
    /// Skewed, with this coefficient of variation (standard deviation over mean).
    LogNormal {
        variation: f64,
    },
}

impl Distribution {
    pub const NONE: Distribution = Distribution { mean: Nanos::ZERO, shape: Shape::Constant };

    pub fn draw(&self, random: &mut impl Rng) -> Nanos {
        if self.mean == Nanos::ZERO {
            return Nanos::ZERO;
        }
        Nanos((self.mean.0 as f64 * self.shape.draw(random)) as u64)
    }
}

impl Shape {
    pub fn draw(&self, random: &mut impl Rng) -> f64 {
        match self {
            Shape::Constant => 1.0,
            Shape::Exponential => exponential(random),
            Shape::Uniform => 2.0 * random.random::<f64>(),
            Shape::Between { least } => least + 2.0 * (1.0 - least) * random.random::<f64>(),
            // exp(m + s n) has the mean exp(m + s²/2) and the squared variation exp(s²) - 1.
            Shape::LogNormal { variation } => {
                let variance = variation.mul_add(*variation, 1.0).ln();
                (variance.sqrt() * normal(random) - variance / 2.0).exp()
            }
        }
    }
}

/// The number of requests per connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Count {
    Constant(u32),
    /// At least one, with this mean: after each request the connection ends with the same probability.
    Geometric {
        mean: f64,
    },
    /// Uniform between two numbers.
    Uniform(u32, u32),
    /// Some connections carry one request, the others a geometric number.
    Mixed {
        /// The share of *requests* carried by the others.
        many: f64,
        mean: f64,
    },
}

impl Count {
    /// Draws a number of at least one.
    pub fn draw(&self, random: &mut impl Rng) -> u32 {
        match *self {
            Count::Constant(count) => count.max(1),
            Count::Geometric { mean } => geometric(mean, random),
            Count::Uniform(least, most) => random.random_range(least.max(1)..=most.max(least).max(1)),
            Count::Mixed { many, mean } => {
                // If a share c of the connections carries `mean` requests each, their share of the requests is c mean /
                // (c mean + 1 - c).
                let share = many / (mean - many * (mean - 1.0));
                if random.random::<f64>() < share { geometric(mean, random) } else { 1 }
            }
        }
    }
}

fn geometric(mean: f64, random: &mut impl Rng) -> u32 {
    if mean <= 1.0 {
        return 1;
    }
    // By inversion: the number of trials until the first success of probability 1/mean.
    let trials = (-exponential(random) / (-1.0 / mean).ln_1p()).ceil();
    trials.clamp(1.0, f64::from(u32::MAX)) as u32
}

/// Exponential with mean one. 1 - u is in (0, 1], so the logarithm is finite.
pub fn exponential(random: &mut impl Rng) -> f64 {
    -(1.0 - random.random::<f64>()).ln()
}

/// Standard normal, by Box and Muller.
fn normal(random: &mut impl Rng) -> f64 {
    (2.0 * exponential(random)).sqrt() * (2.0 * std::f64::consts::PI * random.random::<f64>()).cos()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    const DRAWS: usize = 200_000;

    fn moments(mut draw: impl FnMut(&mut Xoshiro256PlusPlus) -> f64) -> (f64, f64) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let draws: Vec<f64> = (0..DRAWS).map(|_| draw(&mut random)).collect();
        let mean = draws.iter().sum::<f64>() / DRAWS as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / DRAWS as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn times_have_their_mean_and_variation() {
        let shapes = [
            (Shape::Constant, 0.0),
            (Shape::Exponential, 1.0),
            (Shape::Uniform, 1.0 / 3.0_f64.sqrt()),
            (Shape::Between { least: 0.5 }, 0.5 / 3.0_f64.sqrt()),
            (Shape::LogNormal { variation: 1.5 }, 1.5),
        ];
        for (shape, expected) in shapes {
            let distribution = Distribution { mean: Nanos(7_000_000), shape };
            let (mean, variation) = moments(|random| distribution.draw(random).0 as f64);
            assert!((mean / 7e6 - 1.0).abs() < 0.02, "{shape:?}: {mean}");
            assert!((variation - expected).abs() < 0.06, "{shape:?}: {variation}");
        }
        assert_eq!(Distribution::NONE.draw(&mut Xoshiro256PlusPlus::seed_from_u64(1)), Nanos::ZERO);
    }

    #[test]
    fn counts_have_their_mean() {
        let check = |count: Count, expected: f64| {
            let (mean, _) = moments(|random| f64::from(count.draw(random)));
            assert!((mean / expected - 1.0).abs() < 0.02, "{count:?}: {mean}");
        };
        check(Count::Constant(5), 5.0);
        check(Count::Geometric { mean: 10.0 }, 10.0);
        check(Count::Geometric { mean: 1.0 }, 1.0);
        check(Count::Uniform(2, 6), 4.0);
    }

    #[test]
    fn the_mixture_is_by_requests_not_by_connections() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
        let count = Count::Mixed { many: 0.7, mean: 10.0 };
        let drawn: Vec<u32> = (0..DRAWS).map(|_| count.draw(&mut random)).collect();
        let all: f64 = drawn.iter().map(|&count| f64::from(count)).sum();
        // 70 % of the requests on connections with ten and 30 % alone: 1 / (0.7/10 + 0.3) requests per connection.
        assert!((all / DRAWS as f64 * 0.37 - 1.0).abs() < 0.02, "{all}");
    }
}
