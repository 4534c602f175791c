//! Ziggurat sampling of the exponential and the normal distribution (Marsaglia & Tsang, JSS 5(8), 2000), 256 layers.
//!
//! Ninety-nine of a hundred draws cost one multiplication and one comparison; a simulator draws two numbers per job.

use std::sync::LazyLock;

use super::{Random, UNIT};

const LAYERS: usize = 256;
/// Where the tail begins and the area of a layer, from the paper's recursion for 256 layers.
const EXPONENTIAL_TAIL: f64 = 7.697_117_470_131_05;
const EXPONENTIAL_AREA: f64 = 0.003_949_659_822_581_557;
const NORMAL_TAIL: f64 = 3.654_152_885_361_009;
const NORMAL_AREA: f64 = 0.004_928_673_233_974_655;

/// Which density a table belongs to.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shape {
    Exponential,
    Normal,
}

impl Shape {
    fn density(self, x: f64) -> f64 {
        match self {
            Shape::Exponential => (-x).exp(),
            Shape::Normal => (-x * x / 2.0).exp(),
        }
    }

    fn inverse_density(self, y: f64) -> f64 {
        match self {
            Shape::Exponential => -y.ln(),
            Shape::Normal => (-2.0 * y.ln()).sqrt(),
        }
    }
}

/// Both tables, built once.
pub(super) struct Tables {
    pub(super) exponential: Ziggurat,
    pub(super) normal: Ziggurat,
}

impl Tables {
    pub(super) fn shared() -> &'static Self {
        static TABLES: LazyLock<Tables> = LazyLock::new(|| Tables {
            exponential: Ziggurat::new(Shape::Exponential, EXPONENTIAL_TAIL, EXPONENTIAL_AREA),
            normal: Ziggurat::new(Shape::Normal, NORMAL_TAIL, NORMAL_AREA),
        });
        &TABLES
    }
}

/// Layer edges `x` (widest first) and the density at each.
pub(super) struct Ziggurat {
    x: [f64; LAYERS + 1],
    density: [f64; LAYERS + 1],
}

impl Ziggurat {
    fn new(shape: Shape, tail: f64, area: f64) -> Self {
        let mut x = [0.0; LAYERS + 1];
        x[0] = area / shape.density(tail);
        x[1] = tail;
        for layer in 2..LAYERS {
            x[layer] = shape.inverse_density(area / x[layer - 1] + shape.density(x[layer - 1]));
        }
        Self { x, density: x.map(|edge| shape.density(edge)) }
    }

    #[inline]
    pub(super) fn sample(&self, random: &mut Random, shape: Shape) -> f64 {
        loop {
            let bits = random.bits();
            let layer = (bits & 0xff) as usize;
            // The low eight bits chose the layer, the upper 53 the abscissa: they do not overlap.
            let unit = (bits >> 11) as f64 * UNIT;
            let u = if shape == Shape::Normal { 2.0 * unit - 1.0 } else { unit };
            let x = u * self.x[layer];
            if x.abs() < self.x[layer + 1] {
                return x;
            }
            if layer == 0 {
                return tail(random, shape, u);
            }
            if self.accepts(random, shape, layer, x) {
                return x;
            }
        }
    }

    /// Decides about a point at the edge of a layer. A function of its own, so that the usual case has no call of `exp` to save
    /// its registers for.
    #[cold]
    #[inline(never)]
    fn accepts(&self, random: &mut Random, shape: Shape, layer: usize, x: f64) -> bool {
        let (upper, lower) = (self.density[layer + 1], self.density[layer]);
        lower + (upper - lower) * random.uniform() < shape.density(x)
    }
}

#[cold]
fn tail(random: &mut Random, shape: Shape, u: f64) -> f64 {
    if shape == Shape::Exponential {
        return EXPONENTIAL_TAIL - random.uniform_positive().ln();
    }
    loop {
        let x = random.uniform_positive().ln() / NORMAL_TAIL;
        let y = random.uniform_positive().ln();
        if -2.0 * y >= x * x {
            return if u < 0.0 { x - NORMAL_TAIL } else { NORMAL_TAIL - x };
        }
    }
}
